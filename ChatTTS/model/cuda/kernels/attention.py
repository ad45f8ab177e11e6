"""Attention of single rows over paged keys and values, as decoding needs it.

The context of a row is cut into splits of a fixed number of positions. Each split is attended to
on its own, and the splits are merged in order. So the result does not depend on which program
computed which split, and a long context keeps many multiprocessors busy.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .dependent_launch import follow, launch_options, overlaps

# Positions in a split. The keys and values of a split fit into the registers of a program, so all
# of them are loaded from memory at once.
SPLIT = 256
# The number of programs that keeps a large GPU busy: several on each of 132 multiprocessors, in
# enough waves that the last, incomplete one takes a small part of the time. More gain nothing.
_PROGRAMS = 132 * 16
_LOG2_E = 1.4426950408889634


def attend_rows(
    query: Tensor,
    pool: Tensor,
    layer: int,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    *,
    most: int,
) -> Tensor:
    """Compute causal attention: each row attends to its own position and to all earlier ones.

    Args:
        query: [rows, heads, head size], rotated, contiguous.
        pool: [blocks, layers, 2 (keys, values), kv heads, block size, head size], contiguous; the
            rows' own keys and values are in it already.
        layer: index of the layer of ``pool`` to read.
        tables: int32 [sequences, blocks], block tables: physical blocks; contiguous.
        table_of: int32 [rows], which row of ``tables`` belongs to the row; -1 for padding.
        positions: int32 [rows], the position of each row in its sequence. The previous launch must
            not write ``positions`` or ``table_of``: they are read before that launch is done.
        most: an upper bound of the number of positions that a row attends to. It is known before
            the positions are, so the launch can be recorded.

    Returns:
        [rows, heads, head size] in the dtype of ``query``; zeros for padding. Sums are computed in
        float32.
    """
    mixed = torch.empty_like(query)
    rows, heads, size = query.shape
    if not rows:
        return mixed
    kv_heads, block_size = pool.shape[3:5]
    splits = triton.cdiv(most, SPLIT)
    sums = query.new_empty(rows, heads, splits, size, dtype=torch.float32)
    stats = query.new_empty(rows, heads, splits, 2, dtype=torch.float32)
    programs = min(splits, triton.cdiv(_PROGRAMS, rows * kv_heads))
    blocks = pool[:, layer]
    width = triton.next_power_of_2(size)
    overlap = overlaps(query)
    options = launch_options(overlap)
    _attend_splits[(rows, kv_heads, programs)](
        query,
        blocks,
        tables,
        table_of,
        positions,
        sums,
        stats,
        size**-0.5 * _LOG2_E,
        blocks.stride(0),
        tables.stride(0),
        splits,
        heads // kv_heads,
        block_size,
        size,
        width,
        SPLIT,
        overlap,
        # Each thread holds 128 bytes of keys and 128 bytes of values.
        num_warps=min(max(width * pool.element_size() // 16, 4), 16),
        **options,
    )
    _merge_splits[(rows, heads)](
        sums,
        stats,
        table_of,
        positions,
        mixed,
        splits,
        size,
        width,
        SPLIT,
        overlap,
        num_warps=1,
        **options,
    )
    return mixed


def attend_rows_torch(
    query: Tensor,
    pool: Tensor,
    layer: int,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    *,
    most: int,
) -> Tensor:
    """Compute :func:`attend_rows` in plain torch; ``most`` is only checked."""
    kv_heads, block_size, size = pool.shape[3:]
    mixed = torch.zeros_like(query)
    for row, (sequence, position) in enumerate(
        zip(table_of.tolist(), positions.tolist(), strict=True)
    ):
        if sequence < 0:
            continue
        length = position + 1
        assert length <= most, f"row {row} attends to {length} positions, which is over {most}"
        used = tables[sequence, : -(-length // block_size)].long()
        # [blocks, 2, heads, positions, size] to [2, heads, length, size]
        held = pool[used, layer].permute(1, 2, 0, 3, 4).flatten(2, 3)[:, :, :length]
        keys, values = held.float()
        grouped = query[row].view(kv_heads, -1, size).float()
        weights = (grouped @ keys.transpose(1, 2) * size**-0.5).softmax(dim=-1)
        mixed[row] = (weights @ values).flatten(0, 1).to(query.dtype)
    return mixed


@triton.jit(do_not_specialize=["table_width", "splits"])
def _attend_splits(
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
    group: tl.constexpr,
    block_size: tl.constexpr,
    size: tl.constexpr,
    width: tl.constexpr,
    split_size: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Compute some splits of a row, for the query heads that share a head of keys.

    A split has a greatest score, and each position's weight is two to the power of its score minus
    that. Stored are the sum of the weighted values, the greatest score and the sum of the weights.
    """
    row, kv_head, kv_heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    lane, column = tl.arange(0, split_size), tl.arange(0, width)
    sequence = tl.load(table_of + row).to(tl.int64)
    length = _length(table_of, positions, row)
    keys = blocks + kv_head * block_size * size
    to_values = kv_heads * block_size * size
    if overlap:
        follow()
    for split in range(tl.program_id(2), tl.cdiv(length, split_size), tl.num_programs(2)):
        position = split * split_size + lane
        known = position < length
        entry = tables + sequence * table_width + position // block_size
        block = tl.load(entry, mask=known, other=0).to(tl.int64)
        place = (block * block_stride + position % block_size * size)[:, None] + column[None, :]
        there = known[:, None] & (column < size)[None, :]
        key = tl.load(keys + place, mask=there, other=0.0)
        value = tl.load(keys + to_values + place, mask=there, other=0.0)
        # Without this barrier the compiler saves registers: it delays most loads until the first
        # ones have been used, and the program then waits for memory several times.
        tl.debug_barrier()
        key, value = key.to(tl.float32), value.to(tl.float32)
        for member in tl.static_range(group):
            head = (row * kv_heads + kv_head) * group + member
            asked = tl.load(query + head * size + column, mask=column < size, other=0.0)
            asked = asked.to(tl.float32) * scale
            score = tl.where(known, tl.sum(key * asked[None, :], axis=1), float("-inf"))
            greatest = tl.max(score, axis=0)
            weight = tl.exp2(score - greatest)
            out = head * splits + split
            mixed = tl.sum(value * weight[:, None], axis=0)
            tl.store(sums + out * size + column, mixed, mask=column < size)
            tl.store(stats + out * 2, greatest)
            tl.store(stats + out * 2 + 1, tl.sum(weight, axis=0))


@triton.jit(do_not_specialize=["splits"])
def _merge_splits(
    sums: tl.tensor,
    stats: tl.tensor,
    table_of: tl.tensor,
    positions: tl.tensor,
    mixed: tl.tensor,
    splits: tl.tensor,
    size: tl.constexpr,
    width: tl.constexpr,
    split_size: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Merge the splits of one head of one row, in order."""
    row = tl.program_id(0)
    head = row * tl.num_programs(1) + tl.program_id(1)
    lane, column = tl.arange(0, 16), tl.arange(0, width)
    used = tl.cdiv(_length(table_of, positions, row), split_size)
    if overlap:
        follow()
    greatest = float("-inf")
    for first in range(0, used, 16):
        split = first + lane
        seen = stats + (head * splits + split) * 2
        seen = tl.load(seen, mask=split < used, other=float("-inf"))
        greatest = tl.maximum(greatest, tl.max(seen, axis=0))
    total = 0.0
    weighted = tl.zeros([width], tl.float32)
    for first in range(0, used, 4):
        # Four splits at a time, so that their loads do not wait for each other.
        for ahead in tl.static_range(4):
            there = first + ahead < used
            at = head * splits + first + ahead
            share = tl.load(stats + at * 2, mask=there, other=float("-inf"))
            share = tl.exp2(share - greatest)
            total += share * tl.load(stats + at * 2 + 1, mask=there, other=0.0)
            inside = (column < size) & there
            weighted += share * tl.load(sums + at * size + column, mask=inside, other=0.0)
    found = weighted / tl.where(used > 0, total, 1.0)
    tl.store(mixed + head * size + column, found.to(mixed.dtype.element_ty), mask=column < size)


@triton.jit
def _length(table_of: tl.tensor, positions: tl.tensor, row: tl.tensor) -> tl.tensor:
    """Return the number of positions that a row attends to, 0 for padding."""
    return tl.where(tl.load(table_of + row) < 0, 0, tl.load(positions + row) + 1)
