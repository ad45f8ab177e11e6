"""Causal attention of many rows of a sequence at once over paged keys and values, for prompts.

Adjacent rows form tiles. A tile reads keys and values once for all of its rows. It takes the keys
in steps of fixed size from position 0 on, whatever its rows are. Steps beyond a row's own position
change no bit of that row's sums.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from ..int8 import dequantize, head_sizes
from .int8 import scale_address
from .launching import launcher

# Rows of a tile: the fewest that tensor cores support.
TILE = 16
# Keys in a step.
_KEYS = 64
_LOG2_E = 1.4426950408889634


def tiles_of(table_of: NDArray[np.int32]) -> NDArray[np.int32]:
    """Cut rows into tiles, each of one sequence.

    Args:
        table_of: int32 [rows], the sequence of each row, or -1 for padding. All rows of a sequence
            are adjacent; a sequence that decodes has a single row.

    Returns:
        int32 [tiles, 3]: first row, number of rows, sequence. Every row is in exactly one tile.
    """
    begins = np.ones(len(table_of), dtype=bool)
    begins[1:] = table_of[1:] != table_of[:-1]
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(table_of))
    cuts = -(-lengths // TILE)
    run = np.repeat(np.arange(len(starts)), cuts)
    done = (np.arange(len(run)) - (np.cumsum(cuts) - cuts)[run]) * TILE
    first, rows = starts[run] + done, np.minimum(lengths[run] - done, TILE)
    return np.stack([first, rows, table_of[starts[run]]], axis=1).astype(np.int32)


def attend_chunks(
    query: Tensor, pool: Tensor, layer: int, tables: Tensor, positions: Tensor, tiles: Tensor
) -> Tensor:
    """Compute causal attention: each row attends to its own position and to all earlier ones.

    Args:
        query: [rows, heads, head size], rotated, contiguous.
        pool: [blocks, layers, 2 (keys, values), kv heads, block size, head size], contiguous, in
            the dtype of ``query`` or in eight bits, see :mod:`ChatTTS.model.kernels.int8`;
            the rows' own keys and values are in it already.
        layer: index of the layer of ``pool`` to read.
        tables: int32 [sequences, blocks], block tables: physical blocks; contiguous.
        positions: int32 [rows], the position of each row in its sequence.
        tiles: int32 [tiles, 3], as :func:`tiles_of` returns them; a tile of 0 rows does nothing.

    Returns:
        [rows, heads, head size] in the dtype of ``query``; zeros for padding, undefined for rows
        in no tile. Sums are computed in float32.
    """
    mixed = torch.empty_like(query)
    if not len(tiles):
        return mixed
    heads, size = query.shape[1:]
    kv_heads, block_size, _ = head_sizes(pool)
    blocks = pool[:, layer]
    launcher(_attend_tiles, (len(tiles), heads))(
        query,
        blocks,
        tables,
        positions,
        tiles,
        mixed,
        size**-0.5 * _LOG2_E,
        blocks.stride(0),
        tables.stride(0),
        heads,
        kv_heads,
        block_size,
        size,
        max(triton.next_power_of_2(size), 16),
        TILE,
        _KEYS,
        # Triton's interpreter multiplies the bits of bfloat16 numbers as if they were integers.
        not query.is_cuda,
        # Numbers of eight bits are widened in registers, which more warps have more of.
        num_warps=8 if pool.dtype is torch.int8 else 4,
    )
    return mixed


def attend_chunks_torch(
    query: Tensor, pool: Tensor, layer: int, tables: Tensor, positions: Tensor, tiles: Tensor
) -> Tensor:
    """Compute :func:`attend_chunks` in plain torch."""
    kv_heads, block_size, _ = head_sizes(pool)
    mixed = torch.zeros_like(query)
    for first, rows, sequence in tiles.tolist():
        if rows == 0 or sequence < 0:
            continue
        own = slice(first, first + rows)
        length = int(positions[own].max()) + 1
        used = tables[sequence, : -(-length // block_size)].long()
        # [blocks, 2, heads, positions, size] to [2, heads, length, size]
        held = dequantize(pool[used, layer]).permute(1, 2, 0, 3, 4).flatten(2, 3)[:, :, :length]
        keys, values = held.repeat_interleave(query.shape[1] // kv_heads, dim=1)
        scores = query[own].transpose(0, 1).float() @ keys.transpose(1, 2) * query.shape[2] ** -0.5
        later = torch.arange(length, device=query.device) > positions[own, None]
        weights = scores.masked_fill(later, -torch.inf).softmax(dim=-1)
        mixed[own] = (weights @ values).transpose(0, 1).to(query.dtype)
    return mixed


@triton.jit(do_not_specialize=["table_width"])
def _attend_tiles(
    query: tl.tensor,
    blocks: tl.tensor,
    tables: tl.tensor,
    positions: tl.tensor,
    tiles: tl.tensor,
    mixed: tl.tensor,
    scale: tl.tensor,
    block_stride: tl.tensor,
    table_width: tl.tensor,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    block_size: tl.constexpr,
    size: tl.constexpr,
    width: tl.constexpr,
    tile_size: tl.constexpr,
    step: tl.constexpr,
    widen: tl.constexpr,
) -> None:
    """Compute one head of one tile with an online softmax (Milakov and Gimelshein 2018).

    Weights are relative to the greatest score so far. When a greater score appears, the sums so far
    are scaled down.
    """
    tile, head = tiles + tl.program_id(0) * 3, tl.program_id(1)
    lane, column = tl.arange(0, step), tl.arange(0, width)
    line = tl.arange(0, tile_size)
    sequence = tl.load(tile + 2).to(tl.int64)
    row = tl.load(tile) + line
    exists = line < tl.load(tile + 1)
    position = tl.load(positions + row, mask=exists & (sequence >= 0), other=-1)
    length = tl.max(position, axis=0) + 1

    at = (row[:, None] * heads + head) * size + column[None, :]
    inside = (column < size)[None, :]
    asked = tl.load(query + at, mask=exists[:, None] & inside, other=0.0)
    if widen:
        asked = asked.to(tl.float32)
    scaled: tl.constexpr = blocks.dtype.element_ty == tl.int8
    of_head: tl.constexpr = block_size * (size + 4 * scaled)
    keys = blocks + head // (heads // kv_heads) * of_head
    # Below every score, yet finite: the difference of two infinities is NaN.
    greatest = tl.full([tile_size], -1e30, tl.float32)
    total = tl.zeros([tile_size], tl.float32)
    weighted = tl.zeros([tile_size, width], tl.float32)
    for first in range(0, length, step):
        there = first + lane
        known = there < length
        entry = tables + sequence * table_width + there // block_size
        block = tl.load(entry, mask=known, other=0).to(tl.int64)
        slot = there % block_size
        place = (block * block_stride + slot * size)[:, None] + column[None, :]
        readable = known[:, None] & inside
        key = tl.load(keys + place, mask=readable, other=0.0)
        to_values = kv_heads * of_head
        value = tl.load(keys + to_values + place, mask=readable, other=0.0)
        if scaled:
            # The whole numbers are exact in every dtype of queries.
            key, value = key.to(asked.dtype), value.to(asked.dtype)
            scales = scale_address(keys + block * block_stride, slot, block_size, size)
            key_scale = tl.load(scales, mask=known, other=0.0)
            scales = scale_address(keys + to_values + block * block_stride, slot, block_size, size)
            value_scale = tl.load(scales, mask=known, other=0.0)
        if widen:
            key, value = key.to(tl.float32), value.to(tl.float32)
        score = tl.dot(asked, tl.trans(key), input_precision="ieee") * scale
        if scaled:
            score = score * key_scale[None, :]
        score = tl.where(there[None, :] <= position[:, None], score, float("-inf"))
        greater = tl.maximum(greatest, tl.max(score, axis=1))
        weight = tl.exp2(score - greater[:, None])
        fading = tl.exp2(greatest - greater)
        total = total * fading + tl.sum(weight, axis=1)
        weighted = weighted * fading[:, None]
        if scaled:
            weight = weight * value_scale[None, :]
        weighted = tl.dot(weight.to(value.dtype), value, weighted, input_precision="ieee")
        greatest = greater
    found = weighted / tl.where(position >= 0, total, 1.0)[:, None]
    tl.store(mixed + at, found.to(mixed.dtype.element_ty), mask=exists[:, None] & inside)
