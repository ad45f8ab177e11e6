"""The KV cache of the accelerated Llama: blocks that all calls share.

Recorded steps contain the address of the blocks' memory, so it outlives the batches.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...errors import GenerationError
from ...utils.locks import new_rlock
from ..velocity.block_pool import BlockPool

# The number of blocks that a row is given at a time.
_STRETCH = 4


class BlockStore:
    """Memory for blocks of keys and values, which grows when no block is free; thread-safe.

    Args:
        new_pool: allocates a pool with a given number of blocks, its first dimension.
        blocks: number of blocks at first.

    Attributes:
        pool: the memory of all blocks; growing replaces this tensor by a larger one.
        blocks: which of them are in use.
    """

    def __init__(self, new_pool: Callable[[int], Tensor], blocks: int) -> None:
        self._new_pool = new_pool
        self.pool = new_pool(blocks)
        self.blocks = BlockPool(blocks)
        # Reentrant: the garbage collector may call give_back in the thread that holds the lock.
        self._lock = new_rlock()

    def take(self, count: int) -> list[int]:
        """Reserve ``count`` free blocks and return their indices.

        Raises:
            GenerationError: the device has no memory for more blocks; no block was taken.
        """
        with self._lock:
            if count > self.blocks.available:
                self._grow(count)
            return [self.blocks.allocate()[0] for _ in range(count)]

    def give_back(self, blocks: Sequence[int]) -> None:
        """Free blocks that the caller reads no more."""
        with self._lock:
            for block in blocks:
                self.blocks.release(block)

    def _grow(self, count: int) -> None:
        before = self.pool
        after = len(before) + max(len(before), count)
        try:
            grown = self._new_pool(after)
        except torch.cuda.OutOfMemoryError as error:
            size = before.nbytes // len(before)
            raise GenerationError(
                f"there is no memory for a KV cache of {after * size >> 20} MB beside the "
                f"{before.nbytes >> 20} MB in use: pass fewer or shorter texts at a time "
                "(max_split_batch), or load with dtype='bfloat16'"
            ) from error
        grown[: len(before)] = before
        self.pool = grown
        self.blocks.grow(after)


class PagedCache:
    """The blocks of a batch of sequences, one row each; replaces the caches of transformers.

    Attributes:
        tables: int32 [rows, blocks], the block tables, on the store's device.
    """

    def __init__(self, store: BlockStore, width: int) -> None:
        self._store = store
        self._width = width
        self._held: list[list[int]] = []
        self.tables = torch.zeros(0, width, dtype=torch.int32, device=store.pool.device)
        weakref.finalize(self, _release, store, self._held)

    def reserve(self, rows: int, positions: int) -> None:
        """Make room for ``positions`` positions in each row; the first call sets the rows.

        Raises:
            GenerationError: the device has no memory for more blocks.
        """
        if not self._held:
            self._held.extend([] for _ in range(rows))
        missing = -(-positions // self._store.pool.shape[4]) - len(self._held[0])
        if missing <= 0:
            return
        more = min(max(missing, _STRETCH), self._width - len(self._held[0]))
        taken = self._store.take(more * len(self._held))
        for row, held in enumerate(self._held):
            held.extend(taken[row * more : (row + 1) * more])
        tables = torch.zeros(rows, self._width, dtype=torch.int32)
        tables[:, : len(self._held[0])] = torch.tensor(self._held, dtype=torch.int32)
        self.tables = tables.to(self._store.pool.device)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows at ``indices``, and free the blocks of all other rows."""
        kept = indices.tolist()
        for row in set(range(len(self._held))) - set(kept):
            self._store.give_back(self._held[row])
        self._held[:] = [self._held[row] for row in kept]
        self.tables = self.tables[indices]


def _release(store: BlockStore, held: list[list[int]]) -> None:
    for blocks in held:
        store.give_back(blocks)
