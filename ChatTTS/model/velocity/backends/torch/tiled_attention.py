"""Attention over paged keys and values with torch, for all rows of a step at once; on a CPU.

Each row attends to its positions in tiles of 128. All products and sums of a tile have one shape,
however long the row's sequence is and whatever rows are computed beside it, and the tiles of a row
are put together in their order, as in FlashAttention (Dao et al. 2022). Torch reads keys and values
where they lie: scores are a product that is sampled at the places of a sparse matrix, and values
are mixed as in a bag of embeddings. So no bit of a row depends on the others, as long as torch
computes each row of these by itself (row_checks.py).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from ....llama.config import LlamaShape
from ...input_batch import AttentionProbe, InputBatch
from .attention import note_attention
from .linear import in_chunks

TILE = 128
# Pairs of a row and a tile that are computed together; it bounds the memory of a step.
_PAIRS = 256


@dataclass(frozen=True)
class TileChunk:
    """Some of the pairs of a row and a tile, which are computed together.

    Attributes:
        rows: int64 [pairs], the row of each pair.
        places: int64 [pairs * heads, TILE], the keys and values of each pair.
        wanted: see :func:`wanted_scores`.
        gathered: where ``places`` are in the pool, [places]; ``None`` if they are in the pool
            itself. Torch reads keys and values in place in float32 alone, and if a row of the
            sparse matrix has room for all that is wanted of it.
    """

    rows: Tensor
    places: Tensor
    wanted: Tensor
    gathered: Tensor | None


@dataclass(frozen=True)
class TilePlan:
    """The places that the rows of a step write and read, in every layer.

    Attributes:
        keys: int64 [rows, kv heads], where the keys of a row go.
        chunks: all pairs, ordered by row, then by tile.
        pairs: int64 [rows, most tiles], the pair of each tile of a row; ``None`` where every row
            has a single one.
        absent: bool [rows, most tiles, 1], true where a row has fewer tiles.
        probe: the attention that is wanted, or ``None``.
    """

    keys: Tensor
    chunks: tuple[TileChunk, ...]
    pairs: Tensor | None
    absent: Tensor
    probe: AttentionProbe | None


class TiledAttention:
    """Attention in tiles, on a CPU; see :class:`~.attention.Attention`.

    Args:
        shape: sizes; of a rank, those of its layers and heads (see ``Shard.local``).
    """

    def __init__(self, shape: LlamaShape, block_size: int) -> None:
        self._heads, self._kv_heads = shape.num_attention_heads, shape.num_key_value_heads
        self._layers, self._size = shape.num_hidden_layers, shape.head_dim
        self._block_size = block_size
        silence_torch()

    def plan(self, batch: InputBatch, pool: Tensor) -> TilePlan:
        """Return where the rows of ``batch`` write and read."""
        positions = batch.positions.astype(np.int64)
        tables = batch.tables.astype(np.int64)
        rows = np.arange(len(positions))
        keys = self._vectors(tables, batch.table_of, positions[:, None])[:, :, 0]
        counts = positions // TILE + 1
        most = int(counts.max())
        starts = counts.cumsum() - counts
        row = np.repeat(rows, counts)
        first = (np.arange(len(row)) - starts[row]) * TILE  # position at which a tile begins
        tiles = starts[:, None] + np.minimum(np.arange(most), counts[:, None] - 1)
        return TilePlan(
            keys=torch.from_numpy(keys),
            chunks=tuple(self._chunks(tables, batch.table_of, positions, row, first, pool)),
            pairs=None if most == 1 else torch.from_numpy(tiles),
            absent=torch.from_numpy(np.arange(most) >= counts[:, None]).unsqueeze(-1),
            probe=batch.probe,
        )

    def _count(self, pool: Tensor) -> int:
        """Return how many vectors there are from the first key, or value, of a layer on."""
        behind = (2 * self._layers - 1) * self._kv_heads * self._block_size
        return pool.numel() // self._size - behind

    def _vectors(
        self, tables: NDArray[np.int64], table_of: NDArray[np.int32], positions: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return where keys lie in the first layer of the pool, [n, kv heads, positions].

        Args:
            table_of: the sequence of each row, [n].
            positions: [n, positions].
        """
        blocks, slots = np.divmod(positions, self._block_size)
        size = self._block_size * self._kv_heads
        begin = tables[table_of[:, None], blocks] * (2 * self._layers * size) + slots
        heads = np.arange(self._kv_heads) * self._block_size
        places: NDArray[np.int64] = begin[:, None] + heads[:, None]
        return places

    def _chunks(
        self,
        tables: NDArray[np.int64],
        table_of: NDArray[np.int32],
        positions: NDArray[np.int64],
        rows: NDArray[np.int64],
        firsts: NDArray[np.int64],
        pool: Tensor,
    ) -> Iterator[TileChunk]:
        """Yield the pairs of a row and a tile.

        Args:
            table_of: the sequence of each row.
            positions: of each row.
            rows, firsts: of each pair the row, and the position at which the tile begins.
        """
        is_read_in_place = pool.dtype is torch.float32 and self._count(pool) >= TILE
        groups = self._heads // self._kv_heads
        for begin in range(0, len(rows), _PAIRS):
            row = rows[begin : begin + _PAIRS]
            wanted = firsts[begin : begin + _PAIRS, None] + np.arange(TILE)
            last = positions[row, None]
            # What lies behind the row's position may be NaN, and is not read: the position itself
            # stands in for it.
            found = self._vectors(tables, table_of[row], np.minimum(wanted, last))
            places = torch.from_numpy(found.repeat(groups, axis=1).reshape(-1, TILE))
            hidden = np.where(wanted > last, np.float32(-np.inf), np.float32(0))
            bias = torch.from_numpy(hidden.repeat(self._heads, axis=0))
            gathered, count = None, self._count(pool)
            if not is_read_in_place:
                gathered, count = places.flatten(), places.numel()
                places = torch.arange(count).view_as(places)
            yield TileChunk(
                rows=torch.from_numpy(row),
                places=places,
                wanted=wanted_scores(places, bias, count),
                gathered=gathered,
            )

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, pool: Tensor, layer: int, plan: TilePlan
    ) -> Tensor:
        """See :class:`~.attention.Attention`."""
        vectors = pool.view(-1, self._size)
        apart = self._kv_heads * self._block_size  # from keys to values, and half of a layer
        count = self._count(pool)
        keys = vectors.narrow(0, 2 * apart * layer, count)
        values = vectors.narrow(0, 2 * apart * layer + apart, count)
        keys[plan.keys] = key.to(pool.dtype)
        values[plan.keys] = value.to(pool.dtype)
        wide = query.float()
        parts = []
        for chunk in plan.chunks:
            queries = wide.index_select(0, chunk.rows).flatten(0, 1)
            tables: tuple[Tensor, ...] = keys, values
            if (places := chunk.gathered) is not None:
                tables = tuple(table.index_select(0, places).float() for table in tables)
            parts.append(attend(queries, tables, chunk.places, chunk.wanted))
        mixed, weights, tops = (torch.cat(part) for part in zip(*parts, strict=True))
        scales = None
        if plan.pairs is not None:
            mixed, scales = self._joined(mixed, weights, tops, plan.pairs, plan.absent)
        if plan.probe is not None:
            self._note(plan.probe, layer, weights, plan.pairs, scales)
        return mixed.view(query.shape).to(query.dtype)

    def _joined(
        self, mixed: Tensor, weights: Tensor, tops: Tensor, pairs: Tensor, absent: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Put the tiles of each row together.

        Args:
            mixed, weights, tops: from :func:`attend`, of all pairs.
            pairs, absent: see :class:`TilePlan`.

        Returns:
            [rows, heads, head size]; and the part of each tile, [rows, most tiles, heads].
        """
        top = tops.view(-1, self._heads)[pairs]  # [rows, tiles, heads]
        # The largest weight of a tile is one part in the sum of its exponentials.
        largest = weights.amax(-1).view(-1, self._heads)[pairs]
        scales = in_chunks(torch.exp, top - top.amax(1, keepdim=True)) / largest
        scales = scales.masked_fill(absent, 0.0)
        most = pairs.shape[1]
        total = scales[:, 0].clone()
        for tile in range(1, most):
            total += scales[:, tile]
        # Exactly 1 where a row has one tile: beside longer rows it has the bits of a step without
        # them.
        scales /= total.unsqueeze(1)
        tiles = mixed.view(-1, self._heads, self._size)[pairs]
        out = tiles[:, 0] * scales[:, 0, :, None]
        for tile in range(1, most):
            out += tiles[:, tile] * scales[:, tile, :, None]
        return out, scales

    def _note(
        self,
        probe: AttentionProbe,
        layer: int,
        weights: Tensor,
        pairs: Tensor | None,
        scales: Tensor | None,
    ) -> None:
        """Write the wanted attention of a layer into the probe."""
        by_pair = weights.view(-1, self._heads, TILE)
        for row in np.flatnonzero(np.diff(probe.first)).tolist():
            if pairs is None or scales is None:
                whole = by_pair[row]
            else:
                parts = by_pair[pairs[row]] * scales[row].unsqueeze(-1)
                whole = parts.transpose(0, 1).flatten(1)
            note_attention(probe, layer, row, whole)


def wanted_scores(places: Tensor, bias: Tensor, count: int) -> Tensor:
    """Return the scores that are computed, as a sparse matrix [n, count] of what is added to them.

    Args:
        places: int64 [n, TILE], the keys of each query.
        bias: float32 [n, TILE]: 0, and -inf where a query must not look.
        count: the number of keys, at least TILE.
    """
    begins = torch.arange(0, places.numel() + 1, TILE)
    size = (len(places), count)
    flat = places.flatten(), bias.flatten()
    return torch.sparse_csr_tensor(begins, *flat, size, check_invariants=False)


def attend(
    query: Tensor, tables: tuple[Tensor, ...], places: Tensor, wanted: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend in tiles.

    Args:
        query: float32 [n, head size].
        tables: keys and values, each float32 [count, head size].
        places: int64 [n, TILE], the keys and values of each query.
        wanted: from :func:`wanted_scores`.

    Returns:
        The mixed values [n, head size]; the probabilities within the tile [n, TILE]; and the
        highest score [n].
    """
    keys, values = tables
    scale = query.shape[-1] ** -0.5
    found = torch.sparse.sampled_addmm(wanted, query, keys.t(), alpha=scale)
    scores = found.values().view_as(places)
    weights = scores.softmax(dim=-1)
    mixed = embedding_bag(places, values, mode="sum", per_sample_weights=weights)
    return mixed, weights, scores.amax(-1)


@functools.cache
def silence_torch() -> None:
    """Spend the warning that sparse matrices are new to torch, which comes once in a process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        wanted_scores(torch.zeros(1, TILE, dtype=torch.int64), torch.zeros(1, TILE), TILE)
