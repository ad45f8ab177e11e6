"""The attention of chosen heads to the first positions of their sequences.

The attention of a step keeps no probabilities. So the few wanted heads are computed again, from the
queries of the step and the keys in the pool.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ...llama.rotary import rotate
from ..int8 import dequantize, head_sizes
from .attention import SPLIT
from .int8 import scale_address
from .launching import launcher
from .rotary import rotated

_LOG2_E = 1.4426950408889634
# Numbers that describe an entry: row, layer, head, columns, and where they begin in the result.
ENTRY = 5


def attend_text(
    entries: Tensor,
    qkv: Tensor,
    rotary: tuple[Tensor, Tensor],
    pool: Tensor,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    found: Tensor,
) -> None:
    """Compute the attention of some heads of some rows, over all positions up to the row's own.

    No bit of an entry depends on the others.

    Args:
        entries: int32 [n, 5]: row, layer, head, the number of columns (first positions of the
            sequence), and the place of the first one in ``found``; contiguous.
        qkv: [layers, rows, (heads + 2 * kv heads) * head size]: queries, keys and values of the
            step, before the rotation; contiguous.
        rotary: cosines and sines, each float32 [positions, head size], contiguous.
        pool: [blocks, layers, 2 (keys, values), kv heads, block size, head size], contiguous, or
            in eight bits, see :mod:`ChatTTS.model.kernels.int8`; with the keys of the step.
        tables: int32 [sequences, blocks], block tables; contiguous.
        table_of: int32 [rows], which row of ``tables`` belongs to the row; -1 for padding, whose
            entries are left out.
        positions: int32 [rows], the position behind each row's own.
        found: float32, contiguous; receives the probabilities.
    """
    if not len(entries):
        return
    layers, rows, width = qkv.shape
    kv_heads, block_size, size = head_sizes(pool)
    launcher(_attend_text, (len(entries),))(
        entries,
        qkv,
        *rotary,
        pool,
        tables,
        table_of,
        positions,
        found,
        size**-0.5 * _LOG2_E,
        rows,
        tables.stride(0),
        layers,
        width // size - 2 * kv_heads,
        kv_heads,
        block_size,
        size,
        triton.next_power_of_2(size),
        SPLIT,
        num_warps=8,
    )


def attend_text_torch(
    entries: Tensor,
    qkv: Tensor,
    rotary: tuple[Tensor, Tensor],
    pool: Tensor,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    found: Tensor,
) -> None:
    """Compute :func:`attend_text` in plain torch."""
    kv_heads, block_size, size = head_sizes(pool)
    heads = qkv.shape[2] // size - 2 * kv_heads
    for row, layer, head, columns, start in entries.tolist():
        if table_of[row] < 0:
            continue
        length = int(positions[row])
        query = qkv[layer, row, head * size : (head + 1) * size]
        query = rotate(query, *(table[length - 1] for table in rotary))
        used = tables[int(table_of[row]), : -(-length // block_size)].long()
        keys = dequantize(pool[used, layer, 0])[:, head // (heads // kv_heads)].flatten(0, 1)
        scores = keys[:length] @ query.float() * size**-0.5
        found[start : start + columns] = scores.softmax(dim=0)[:columns]


@triton.jit(do_not_specialize=["rows", "table_width"])
def _attend_text(
    entries: tl.tensor,
    qkv: tl.tensor,
    cosines: tl.tensor,
    sines: tl.tensor,
    pool: tl.tensor,
    tables: tl.tensor,
    table_of: tl.tensor,
    positions: tl.tensor,
    found: tl.tensor,
    scale: tl.tensor,
    rows: tl.tensor,
    table_width: tl.tensor,
    layers: tl.constexpr,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    block_size: tl.constexpr,
    size: tl.constexpr,
    width: tl.constexpr,
    split_size: tl.constexpr,
) -> None:
    """Compute one entry: the greatest score and the sum of all weights, then the columns."""
    entry = entries + tl.program_id(0) * 5
    row, layer, head = tl.load(entry), tl.load(entry + 1), tl.load(entry + 2)
    columns, start = tl.load(entry + 3), tl.load(entry + 4)
    lane, column = tl.arange(0, split_size), tl.arange(0, width)
    inside = column < size
    sequence = tl.load(table_of + row).to(tl.int64)
    length = tl.where(sequence < 0, 0, tl.load(positions + row))
    angle = (length - 1) * size + column
    mask = inside & (length > 0)
    cosine = tl.load(cosines + angle, mask=mask, other=0.0)
    sine = tl.load(sines + angle, mask=mask, other=0.0)
    query = (layer.to(tl.int64) * rows + row) * (heads + 2 * kv_heads) + head
    asked = rotated(qkv + query * size, column, cosine, sine, size).to(tl.float32) * scale
    table = tables + sequence * table_width
    of_head = layer.to(tl.int64) * 2 * kv_heads + head // (heads // kv_heads)
    greatest = float("-inf")
    total = 0.0
    for first in range(0, length, split_size):
        position = first + lane
        score = _scores(
            pool, table, asked, position, length, of_head, layers, kv_heads, block_size, size, width
        )
        greater = tl.maximum(greatest, tl.max(score, axis=0))
        total = total * tl.exp2(greatest - greater) + tl.sum(tl.exp2(score - greater), axis=0)
        greatest = greater
    for first in range(0, tl.where(length > 0, columns, 0), split_size):
        position = first + lane
        score = _scores(
            pool, table, asked, position, length, of_head, layers, kv_heads, block_size, size, width
        )
        share = tl.exp2(score - greatest) / total
        tl.store(found + start + position, share, mask=position < columns)


@triton.jit
def _scores(
    pool: tl.tensor,
    table: tl.tensor,
    asked: tl.tensor,
    position: tl.tensor,
    length: tl.tensor,
    of_head: tl.tensor,
    layers: tl.constexpr,
    kv_heads: tl.constexpr,
    block_size: tl.constexpr,
    size: tl.constexpr,
    width: tl.constexpr,
) -> tl.tensor:
    """Return the scores of positions; minus infinity from ``length`` on."""
    column = tl.arange(0, width)
    known = position < length
    block = tl.load(table + position // block_size, mask=known, other=0).to(tl.int64)
    scaled: tl.constexpr = pool.dtype.element_ty == tl.int8
    slot = position % block_size
    keys = pool + (block * layers * 2 * kv_heads + of_head) * (block_size * (size + 4 * scaled))
    place = keys[:, None] + (slot * size)[:, None] + column[None, :]
    key = tl.load(place, mask=known[:, None] & (column < size)[None, :], other=0.0)
    score = tl.sum(key.to(tl.float32) * asked[None, :], axis=1)
    if scaled:
        key_scale = scale_address(keys, slot, block_size, size)
        score = score * tl.load(key_scale, mask=known, other=0.0)
    return tl.where(known, score, float("-inf"))
