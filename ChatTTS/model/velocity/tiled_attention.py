"""Attention over paged keys and values with torch, for all rows of a step at once; on a CPU.

Each row attends to its positions in tiles of 128. All products and sums of a tile have one shape,
however long the row's sequence is and whatever rows are computed beside it, and the tiles of a row
are put together in their order, as in FlashAttention (Dao et al. 2022). So no bit of a row depends
on the others, as long as torch multiplies each matrix of a batch by itself (row_checks.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..llama_config import LlamaShape
from .attention import note_attention
from .batch import AttentionProbe, InputBatch
from .matrices import in_chunks

TILE = 128
# Bytes of keys and values that are gathered at once; they should stay in a cache.
_GATHERED = 16 << 20


@dataclass(frozen=True)
class _Chunk:
    """Some of the pairs of a row and a tile, which are computed together.

    Attributes:
        rows: int64 [pairs], the row of each pair.
        slices: int64 [2 * pairs * kv heads * slices of a tile], where keys and values lie in the
            first layer of the pool.
        bias: float32 [pairs * kv heads, groups, TILE]: 0, and -inf behind the row's own position.
    """

    rows: Tensor
    slices: Tensor
    bias: Tensor


@dataclass(frozen=True)
class TilePlan:
    """Where the rows of a step write and read, in every layer.

    Attributes:
        keys, values: int64 [rows, kv heads], where a row's own ones go.
        chunks: all pairs, ordered by row, then by tile.
        places: int64 [rows, most tiles], the pair of each tile of a row; ``None`` where every row
            has a single one.
        absent: bool [rows, most tiles, 1], true where a row has fewer tiles.
        probe: the attention that is wanted, or ``None``.
    """

    keys: Tensor
    values: Tensor
    chunks: tuple[_Chunk, ...]
    places: Tensor | None
    absent: Tensor
    probe: AttentionProbe | None


class TiledAttention:
    """Attention over blocks of [layers, 2 (keys, values), kv heads, positions, head size].

    Args:
        shape: sizes; of a rank, its own layers and heads (see ``Share.local``).
    """

    def __init__(self, shape: LlamaShape, block_size: int, dtype: torch.dtype) -> None:
        self._heads = shape.num_key_value_heads
        self._groups = shape.num_attention_heads // shape.num_key_value_heads
        self._size = shape.head_dim
        self._block_size = block_size
        self._block_shape = shape.block_shape(block_size)
        self._dtype = dtype
        # Positions that are adjacent in a block and in a tile, wherever a sequence has them.
        self._slice = math.gcd(block_size, TILE)
        pair = 2 * self._heads * TILE * self._size * dtype.itemsize
        self._pairs = max(1, _GATHERED // pair)
        self._room = torch.empty(0, device="cpu")

    def new_pool(self, num_blocks: int) -> Tensor:
        """Return memory for blocks; the first dimension counts them."""
        return torch.empty(num_blocks, *self._block_shape, dtype=self._dtype, device="cpu")

    @property
    def block_bytes(self) -> int:
        """The size of a block in bytes."""
        return torch.Size(self._block_shape).numel() * self._dtype.itemsize

    def plan(self, batch: InputBatch, pool: Tensor) -> TilePlan:
        """Return where the rows of ``batch`` write and read.

        A block is cleared when its first position is about to be written: what it held before, such
        as NaN, must not reach a sum as a product with zero.
        """
        layers, heads, size = self._block_shape[0], self._heads, self._block_size
        positions = batch.positions.astype(np.int64)
        blocks, slots = np.divmod(positions, size)
        own = batch.tables[batch.table_of].astype(np.int64)  # [rows, blocks]
        physical = np.take_along_axis(own, blocks[:, None], axis=1)
        for block in physical[slots == 0, 0].tolist():
            pool[block].zero_()
        numbers = np.arange(heads) * size
        keys = physical * (layers * 2 * heads * size) + numbers + slots[:, None]
        counts = positions // TILE + 1
        most = int(counts.max())
        starts = counts.cumsum() - counts
        tiles = np.minimum(np.arange(most), counts[:, None] - 1)
        places = None if most == 1 else torch.from_numpy(starts[:, None] + tiles)
        absent = torch.from_numpy(np.arange(most) >= counts[:, None]).unsqueeze(-1)
        return TilePlan(
            keys=torch.from_numpy(keys),
            values=torch.from_numpy(keys + heads * size),
            chunks=tuple(self._chunks(own, positions, counts, starts)),
            places=places,
            absent=absent,
            probe=batch.probe,
        )

    def _chunks(
        self,
        own: NDArray[np.int64],
        positions: NDArray[np.int64],
        counts: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> Iterator[_Chunk]:
        """Yield the pairs of rows and tiles.

        Args:
            own: the block table of each row, [rows, blocks].
            positions, counts, starts: of each row its own position, how many tiles it has, and the
                number of its first pair.
        """
        rows = np.repeat(np.arange(len(counts)), counts)
        firsts = (np.arange(len(rows)) - starts[rows]) * TILE  # position at which a tile begins
        per_block, per_tile = self._block_size // self._slice, TILE // self._slice
        layers, heads = self._block_shape[0], self._heads
        for begin in range(0, len(rows), self._pairs):
            row, first = rows[begin : begin + self._pairs], firsts[begin : begin + self._pairs]
            last = positions[row]
            # Slices behind the row's own position are not read; the first one stands in for them.
            wanted = first[:, None] + np.arange(per_tile) * self._slice
            wanted = np.where(wanted <= last[:, None], wanted, first[:, None])
            blocks, slots = np.divmod(wanted, self._block_size)
            block = own[row[:, None], blocks] * (layers * 2 * heads * per_block)
            place = block + slots // self._slice  # [pairs, slices of a tile]
            head = np.arange(2 * heads).reshape(2, 1, heads, 1) * per_block
            slices = place[:, None] + head  # [2, pairs, heads, slices of a tile]
            behind = first[:, None] + np.arange(TILE) > last[:, None]
            bias = np.zeros((len(row), heads, self._groups, TILE), dtype=np.float32)
            bias[np.broadcast_to(behind[:, None, None], bias.shape)] = -np.inf
            yield _Chunk(
                rows=torch.from_numpy(row),
                slices=torch.from_numpy(slices.reshape(-1)),
                bias=torch.from_numpy(bias).flatten(0, 1),
            )

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, pool: Tensor, layer: int, plan: TilePlan
    ) -> Tensor:
        """Write the rows' keys and values into their blocks, then attend up to each row's own.

        Args:
            query: [rows, heads, head size], rotated.
            key, value: [rows, kv heads, head size], keys rotated.
            pool: from :meth:`new_pool`.
            layer: index of the layer.
            plan: of the step, from :meth:`plan`.

        Returns:
            [rows, heads, head size].
        """
        before = layer * 2 * self._heads * self._block_size  # of positions and heads
        vectors = pool.view(-1, self._size)[before:]
        vectors[plan.keys] = key.to(self._dtype)
        vectors[plan.values] = value.to(self._dtype)
        slices = pool.view(-1, self._slice * self._size)[before // self._slice :]
        grouped = query.unflatten(1, (self._heads, self._groups)).float()
        parts = [self._attend(grouped, slices, chunk) for chunk in plan.chunks]
        mixed, weights, tops = (
            parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
        )
        scales = None
        if plan.places is not None:
            mixed, scales = self._joined(mixed, weights, tops, plan.places, plan.absent)
        if plan.probe is not None:
            self._note(plan.probe, layer, weights, plan.places, scales)
        return mixed.view(query.shape).to(query.dtype)

    def _attend(
        self, query: Tensor, slices: Tensor, chunk: _Chunk
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what :func:`attend` does for the pairs of a chunk."""
        if len(self._room) < len(chunk.slices):
            self._room = slices.new_empty(len(chunk.slices), slices.shape[1])
        held = self._room[: len(chunk.slices)]
        torch.index_select(slices, 0, chunk.slices, out=held)
        keys, values = held.view(2, -1, TILE, self._size).float().unbind()
        own = query.index_select(0, chunk.rows).flatten(0, 1)
        return attend(own, keys, values, chunk.bias)

    def _joined(
        self, mixed: Tensor, weights: Tensor, tops: Tensor, places: Tensor, absent: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Put the tiles of each row together.

        Args:
            mixed, weights, tops: from :func:`attend`, of all pairs.
            places, absent: see :class:`TilePlan`.

        Returns:
            [rows, heads, head size]; and the part of each tile, [rows, most tiles, heads].
        """
        heads = self._heads * self._groups
        top = tops.view(-1, heads)[places]  # [rows, tiles, heads]
        # The largest weight of a tile is one part in the sum of its exponentials.
        largest = weights.amax(-1).view(-1, heads)[places]
        scales = in_chunks(torch.exp, top - top.amax(1, keepdim=True)) / largest
        scales = scales.masked_fill(absent, 0.0)
        most = places.shape[1]
        total = scales[:, 0].clone()
        for tile in range(1, most):
            total += scales[:, tile]
        # Exactly 1 where a row has one tile: beside longer rows it has the bits of a step without them.
        scales /= total.unsqueeze(1)
        tiles = mixed.view(-1, heads, self._size)[places]
        out = tiles[:, 0] * scales[:, 0, :, None]
        for tile in range(1, most):
            out += tiles[:, tile] * scales[:, tile, :, None]
        return out, scales

    def _note(
        self,
        probe: AttentionProbe,
        layer: int,
        weights: Tensor,
        places: Tensor | None,
        scales: Tensor | None,
    ) -> None:
        """Write the wanted attention of a layer into the probe."""
        by_pair = weights.view(-1, self._heads * self._groups, TILE)
        for row in np.flatnonzero(np.diff(probe.first)).tolist():
            if places is None or scales is None:
                whole = by_pair[row]
            else:
                parts = by_pair[places[row]] * scales[row].unsqueeze(-1)
                whole = parts.transpose(0, 1).flatten(1)
            note_attention(probe, row, layer, whole)


def attend(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend in tiles; the first dimension counts pairs of a row and a tile, times kv heads.

    Args:
        query: float32 [n, groups, head size].
        keys, values: float32 [n, TILE, head size].
        bias: float32 [n, groups, TILE], added to the scores.

    Returns:
        The mixed values [n, groups, head size]; the probabilities within the tile
        [n, groups, TILE]; and the highest score [n, groups].
    """
    scale = query.shape[-1] ** -0.5
    scores = torch.baddbmm(bias, query, keys.transpose(1, 2), alpha=scale)
    weights = scores.softmax(dim=-1)
    return torch.bmm(weights, values), weights, scores.amax(-1)
