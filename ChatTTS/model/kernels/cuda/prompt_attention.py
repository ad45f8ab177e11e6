"""Attention of rows that belong to one sequence, several for each read of its keys and values.

Adjacent rows form tiles. The rows of a tile that have one sequence share what is read of a split of
their context, and the rounds in which the warps of a program exchange their sums. What is computed
for a row, and in which order, is that of ``attention.py``. So no bit of a row depends on its tile,
and a row may be decoded alone or read with a prompt.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..int8 import head_sizes
from ..torch_references import attend_rows_torch
from .attention import (
    LOG2_E,
    PROGRAMS,
    SPLIT,
    SPLIT_REGISTERS,
    ContextSplits,
    attend_rows,
    split_warps,
)
from .dependent_launch import follow, launch_options, overlaps
from .int8 import scale_address
from .launching import launcher
from .split_merge import row_length

# Rows of a tile. Two programs of 256 threads have registers for four rows each.
TILE_ROWS = 4
# The number of programs that gives each multiprocessor of a large GPU two.
MIN_PROGRAMS = 132 * 2


def attend_prompts(
    query: Tensor,
    pool: Tensor,
    layer: int,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    *,
    max_positions: int,
    tile_rows: int | None = None,
) -> Tensor:
    """Compute :func:`~.attention.attend_rows`, for rows of which many have one sequence.

    The bits are equal, whatever the rows.

    Args:
        query, pool, layer, tables, table_of, positions, max_positions: see
            :func:`~.attention.attend_rows`.
        tile_rows: 1, or rows of a tile: a power of two. By default the launcher chooses.
    """
    rows, heads = query.shape[:2]
    kv_heads, block_size, size = head_sizes(pool)
    tile_rows = tile_rows or tile_for(rows, kv_heads)
    if tile_rows == 1:
        where = tables, table_of, positions
        return attend_rows(query, pool, layer, *where, max_positions=max_positions)
    room = ContextSplits.empty(query, heads, size, max_positions, table_of, positions)
    splits = room.sums.shape[2]
    if rows:
        tiles = triton.cdiv(rows, tile_rows)
        programs = min(splits, triton.cdiv(PROGRAMS, tiles * kv_heads))
        blocks = pool[:, layer]
        width = triton.next_power_of_2(size)
        overlap = overlaps(query)
        launcher(_attend_tile, (tiles, kv_heads, programs))(
            query,
            blocks,
            tables,
            table_of,
            positions,
            room.sums,
            room.stats,
            size**-0.5 * LOG2_E,
            blocks.stride(0),
            tables.stride(0),
            splits,
            rows,
            heads // kv_heads,
            block_size,
            size,
            width,
            SPLIT,
            tile_rows.bit_length() - 1,
            overlap,
            num_warps=split_warps(width, pool.dtype),
            enable_fp_fusion=False,
            maxnreg=SPLIT_REGISTERS,
            **launch_options(overlap),
        )
    return room.merged(query.dtype)


def tile_for(rows: int, kv_heads: int) -> int:
    """Return the rows of a tile: 1 where the tiles of a step would not keep a large GPU busy."""
    return TILE_ROWS if triton.cdiv(rows, TILE_ROWS) * kv_heads >= MIN_PROGRAMS else 1


attend_prompts_torch = attend_rows_torch  # one reference: the rows of a tile change no bit


@triton.jit(do_not_specialize=["table_width", "splits", "rows"])
def _attend_tile(
    query: tl.tensor,
    blocks: tl.tensor,
    tables: tl.tensor,
    table_of: tl.tensor,
    positions: tl.tensor,
    sums: tl.tensor,
    stats: tl.tensor,
    scale: tl.tensor,
    block_stride: tl.tensor,
    table_width: tl.tensor,
    splits: tl.tensor,
    rows: tl.tensor,
    group: tl.constexpr,
    block_size: tl.constexpr,
    size: tl.constexpr,
    width: tl.constexpr,
    split_size: tl.constexpr,
    levels: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Compute some splits of the rows of a tile, for the query heads that share a head of keys.

    A tile has two to the power of ``levels`` rows. Its sequences are computed one after another.
    """
    tile_rows: tl.constexpr = 1 << levels
    # The last rows of a prompt attend to the most positions, so they begin first.
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * tile_rows
    end = tl.minimum(first + tile_rows, rows)
    start, step = tl.program_id(2), tl.num_programs(2)
    if overlap:
        follow()
    while first < end:
        row = first + tl.arange(0, tile_rows)
        sequence = tl.load(table_of + first)
        is_own = tl.load(table_of + row, mask=row < end, other=-1) == sequence
        behind = tl.min(tl.where((row < end) & is_own, end, row), axis=0)
        lengths = row_length(table_of, positions, row, row < behind)
        longest = tl.max(lengths, axis=0)
        whole = tl.min(tl.where(row < behind, lengths, longest), axis=0) // split_size
        table = tables + sequence.to(tl.int64) * table_width
        for split in range(start, whole, step):
            _attend_split(
                query, blocks, table, positions, sums, stats, scale, block_stride, splits, split,
                first, behind, longest, group, block_size, size, width, split_size, levels, False,
            )  # fmt: skip
        rest = start + tl.cdiv(tl.maximum(whole - start, 0), step) * step
        for split in range(rest, tl.cdiv(longest, split_size), step):
            _attend_split(
                query, blocks, table, positions, sums, stats, scale, block_stride, splits, split,
                first, behind, longest, group, block_size, size, width, split_size, levels, True,
            )  # fmt: skip
        first = behind


@triton.jit
def _attend_split(
    query: tl.tensor,
    blocks: tl.tensor,
    table: tl.tensor,
    positions: tl.tensor,
    sums: tl.tensor,
    stats: tl.tensor,
    scale: tl.tensor,
    block_stride: tl.tensor,
    splits: tl.tensor,
    split: tl.tensor,
    first: tl.tensor,
    behind: tl.tensor,
    longest: tl.tensor,
    group: tl.constexpr,
    block_size: tl.constexpr,
    size: tl.constexpr,
    width: tl.constexpr,
    split_size: tl.constexpr,
    levels: tl.constexpr,
    is_partial: tl.constexpr,
) -> tl.tensor:
    """Attend to one split, for the rows from ``first`` up to ``behind``, all of one sequence.

    Returned is which rows of the tile attend to any of it.

    With ``is_partial`` there are rows that do not attend to all of the split. What is behind such a
    row counts as zeros, as in ``_attend_splits``: a weight of zero would not keep out NaN.
    """
    tile_rows: tl.constexpr = 1 << levels
    kv_head, kv_heads = tl.program_id(1), tl.num_programs(1)
    heads = kv_heads * group
    position, column = split * split_size + tl.arange(0, split_size), tl.arange(0, width)
    inside = column < size
    known = position < longest
    block = tl.load(table + position // block_size, mask=known, other=0).to(tl.int64)
    scaled: tl.constexpr = blocks.dtype.element_ty == tl.int8
    of_head: tl.constexpr = block_size * (size + 4 * scaled)
    keys, values = blocks + kv_head * of_head, blocks + (kv_heads + kv_head) * of_head
    slot = position % block_size
    place = (block * block_stride + slot * size)[:, None] + column[None, :]
    there = known[:, None] & inside[None, :]
    key = tl.load(keys + place, mask=there, other=0.0)
    value = tl.load(values + place, mask=there, other=0.0)
    if scaled:
        scales = scale_address(keys + block * block_stride, slot, block_size, size)
        key_scale = tl.load(scales, mask=known, other=0.0)
        scales = scale_address(values + block * block_stride, slot, block_size, size)
        value_scale = tl.load(scales, mask=known, other=0.0)
    # As in _attend_splits, so that all loads are under way at once.
    tl.debug_barrier()
    row = first + tl.arange(0, tile_rows)
    length = tl.load(positions + row, mask=row < behind, other=-1) + 1
    is_stored = length > split * split_size
    key = key.to(tl.float32)
    for member in tl.static_range(group):
        head = kv_head * group + member
        scores: tl.tuple = ()
        for line in tl.static_range(tile_rows):
            exists = first + line < behind
            asked = query + ((first + line).to(tl.int64) * heads + head) * size + column
            asked = tl.load(asked, mask=inside & exists, other=0.0).to(tl.float32) * scale
            score = tl.sum(key * asked[None, :], axis=1)
            if scaled:
                score = score * key_scale
            if is_partial:
                last = _last_of(positions + first + line, exists, split * split_size)
                score = tl.where(position <= last, score, float("-inf"))
            scores += (score,)
        score = _together(scores, levels)
        greatest = tl.max(score, axis=0)
        weight = tl.exp2(score - tl.expand_dims(greatest, 0))
        total = tl.sum(weight, axis=0)
        weights = _apart(weight, levels)
        weighted: tl.tuple = ()
        for line in tl.static_range(tile_rows):
            share = weights[line] * value_scale if scaled else weights[line]
            part = value.to(tl.float32) * share[:, None]
            if is_partial:
                exists = first + line < behind
                last = _last_of(positions + first + line, exists, split * split_size)
                part = tl.where((position <= last)[:, None], part, 0.0)
            weighted += (part,)
        mixed = tl.reshape(tl.sum(_together(weighted, levels), axis=0), (width, tile_rows))
        out = (row * heads + head) * splits + split
        place = sums + out[None, :] * size + column[:, None]
        tl.store(place, mixed, mask=inside[:, None] & is_stored[None, :])
        tl.store(stats + out * 2, tl.reshape(greatest, (tile_rows,)), mask=is_stored)
        tl.store(stats + out * 2 + 1, tl.reshape(total, (tile_rows,)), mask=is_stored)
    return is_stored


@triton.jit
def _last_of(place: tl.tensor, exists: tl.tensor, start: tl.tensor) -> tl.tensor:
    """Return the last position of a split that a row attends to.

    Without any it is the first one, so that all numbers are finite; they are not stored.
    """
    return tl.maximum(tl.load(place, mask=exists, other=0), start)


@triton.jit
def _together(parts: tl.tuple, levels: tl.constexpr) -> tl.tensor:
    """Return two to the power of ``levels`` tensors as one, with as many dimensions of two.

    So a sum or a maximum of it takes as many barriers as that of one tensor, with each tensor's
    numbers in their order.
    """
    for level in tl.static_range(levels - 1, -1, -1):
        pairs: tl.tuple = ()
        for index in tl.static_range(1 << level):
            pairs += (tl.join(parts[index], parts[index + (1 << level)]),)
        parts = pairs
    return parts[0]


@triton.jit
def _apart(whole: tl.tensor, levels: tl.constexpr) -> tl.tuple:
    """Return the tensors of :func:`_together`."""
    parts: tl.tuple = (whole,)
    for level in tl.static_range(levels):
        left: tl.tuple = ()
        right: tl.tuple = ()
        for index in tl.static_range(1 << level):
            one, other = tl.split(parts[index])
            left += (one,)
            right += (other,)
        parts = left + right
    return parts
