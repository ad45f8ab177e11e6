"""The physical blocks of one memory: which are held, which are free, which can be evicted."""

from __future__ import annotations

from collections import OrderedDict

from .prefix_cache import CachedBlock


class BlockPool:
    """Blocks 0 to ``size - 1``, each in one of three states.

    Used: at least one sequence holds it. Cached: no sequence holds it, but the prefix cache has an
    entry for it. Free: neither.

    Args:
        size: number of blocks.
        max_unshared: cached blocks that one sequence alone has used, before they are taken rather
            than fresh ones; ``None`` for any number.

    Attributes:
        references: how many sequences hold each block.
        cached: the prefix cache's entry for each block, or ``None``.
    """

    def __init__(self, size: int, max_unshared: int | None = None) -> None:
        self.size = size
        self._max_unshared = size if max_unshared is None else max_unshared
        self.references = [0] * size
        self.cached: list[CachedBlock | None] = [None] * size
        # A stack of freed blocks: the one freed last is taken first. Memory that was never written
        # is taken after all of them.
        self._freed: list[int] = []
        self._touched = 0
        # Cached blocks, the least recently used first. Those of `_short_lived` are evicted first.
        self._short_lived: OrderedDict[int, None] = OrderedDict()
        self._evictable: OrderedDict[int, None] = OrderedDict()
        # Those of `_evictable` that no second sequence has used, in the same order.
        self._unshared: OrderedDict[int, None] = OrderedDict()
        self._shared = bytearray(size)

    def grow(self, size: int) -> None:
        """Add free blocks, up to ``size`` blocks in all."""
        more = size - self.size
        self.references += [0] * more
        self.cached += [None] * more
        self._shared += bytes(more)
        self.size = size

    @property
    def num_free(self) -> int:
        """Blocks that are neither used nor cached."""
        return self.size - self._touched + len(self._freed)

    @property
    def num_touched(self) -> int:
        """Blocks that have been used at least once; on a CPU no others take memory."""
        return self._touched

    @property
    def num_cached(self) -> int:
        """Blocks that only the prefix cache has an entry for."""
        return len(self._evictable) + len(self._short_lived)

    @property
    def num_used(self) -> int:
        """Blocks that sequences hold."""
        return self._touched - len(self._freed) - self.num_cached

    @property
    def available(self) -> int:
        """Blocks that can be allocated."""
        return self.num_free + self.num_cached

    def allocate(self) -> tuple[int, CachedBlock | None]:
        """Allocate a block, with one reference.

        Returns:
            The block, and the prefix cache's entry that was evicted for it, if any.

        Raises:
            IndexError: no block is available; check ``available`` first.
        """
        evicted = None
        if self._freed:
            block = self._freed.pop()
        elif self._touched < self.size and not self._short_lived and not self._keeps_enough:
            block = self._touched
            self._touched += 1
        elif queue := self._short_lived or (
            self._unshared if self._touched < self.size else self._evictable
        ):
            block = next(iter(queue))
            self._unqueue(block)
            evicted, self.cached[block] = self.cached[block], None
        else:
            raise IndexError("no block is available")
        self.references[block] = 1
        self._shared[block] = False
        return block, evicted

    def hold(self, block: int) -> None:
        """Add a reference to a used or cached block."""
        self._shared[block] = True
        if self.references[block] == 0:
            self._unqueue(block)
        self.references[block] += 1

    def release(self, block: int) -> None:
        """Remove a reference. Without references a block is cached if it has an entry, else free.

        Raises:
            RuntimeError: the block has no references.
        """
        if self.references[block] == 0:
            raise RuntimeError(f"block {block} is freed twice")
        self.references[block] -= 1
        if self.references[block] == 0:
            known = self.cached[block]
            if known is None:
                self._freed.append(block)
            else:
                queue = self._short_lived if known.is_short_lived else self._evictable
                queue[block] = None
                if not known.is_short_lived and not self._shared[block]:
                    self._unshared[block] = None

    @property
    def _keeps_enough(self) -> bool:
        """Return whether new prompts take the blocks of old ones that came once, not fresh memory.

        Otherwise a process that speaks a long book would touch the whole pool, for prompts that
        never come again.
        """
        return len(self._unshared) >= max(1, self._max_unshared)

    def forget(self, block: int) -> None:
        """Remove the prefix cache's entry of a block."""
        self.cached[block] = None
        if self.references[block] == 0:
            self._unqueue(block)
            self._freed.append(block)

    def _unqueue(self, block: int) -> None:
        """Remove a cached block from the queues of blocks to evict."""
        self._short_lived.pop(block, None)
        self._evictable.pop(block, None)
        self._unshared.pop(block, None)
