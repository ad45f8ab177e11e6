"""Rotary embedding (Su et al. 2021), and the storing of keys and values in their blocks.

Each program computes a few heads of one row, so rows are independent of each other.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..int8 import head_sizes
from .dependent_launch import follow, launch_options, overlaps
from .int8 import absmax, quantize, scale_address, scale_of
from .launching import launcher

# Heads of a program: few enough for parallel work in a step of one row, and enough that starting
# programs does not dominate the steps of long prompts.
_HEADS = 4


def rotate_and_store(
    qkv: Tensor,
    cosines: Tensor,
    sines: Tensor,
    positions: Tensor,
    tables: Tensor,
    table_of: Tensor,
    pool: Tensor,
    layer: int,
    heads: int,
) -> Tensor:
    """Rotate queries and keys, and write keys and values into the blocks of their sequences.

    Args:
        qkv: [rows, (heads + 2 * kv heads) * head size]: queries, keys, values; contiguous.
        cosines, sines: float32 [positions, head size], contiguous.
        positions: int32 [rows], the position of each row in its sequence. The angles,
            positions and tables are read early: the last launch without overlap must not write
            them, nor any launch since; see ``dependent_launch.py``.
        tables: int32 [sequences, blocks], block tables: physical blocks; contiguous.
        table_of: int32 [rows], which row of ``tables`` belongs to the row; -1 for padding. Nothing
            is stored for a padding row, and its query is zeros.
        pool: [blocks, layers, 2, kv heads, block size, head size], contiguous: keys and values, or
            in eight bits, see :mod:`ChatTTS.model.kernels.int8`. The head size is even.
        layer: index of the layer of ``pool`` to write.
        heads: number of query heads.

    Returns:
        Rotated queries [rows, heads, head size] in the dtype of ``qkv``. The rotation is computed
        in float32.
    """
    layers, (kv_heads, block_size, size) = pool.shape[1], head_sizes(pool)
    query = qkv.new_empty(len(qkv), heads, size)
    if len(qkv):
        overlap = overlaps(qkv)
        launcher(_rotate_and_store, (len(qkv), triton.cdiv(heads + 2 * kv_heads, _HEADS)))(
            qkv,
            cosines,
            sines,
            positions,
            tables,
            table_of,
            pool,
            query,
            layer,
            tables.stride(0),
            layers,
            heads,
            kv_heads,
            block_size,
            size // 2,
            triton.next_power_of_2(size // 2),
            _HEADS,
            overlap,
            num_warps=1,
            enable_fp_fusion=False,  # as in attention.py; the rotation says where it fuses
            **launch_options(overlap),
        )
    return query


@triton.jit
def rotated(
    head: tl.tensor, column: tl.tensor, cosine: tl.tensor, sine: tl.tensor, size: tl.constexpr
) -> tl.tensor:
    """Return the numbers of one head, rotated, in its dtype.

    The sums have the order of :func:`rotate_and_store`, so the bits are equal.

    Args:
        head: address of the head's first number.
        column: which numbers to return; those from ``size`` on are zeros.
        cosine, sine: of the position, for each of ``column``; zeros from ``size`` on.
    """
    half: tl.constexpr = size // 2
    inside = column < size
    is_first = column < half
    x = tl.load(head + column, mask=inside, other=0.0)
    y = tl.load(head + tl.where(is_first, column + half, column - half), mask=inside, other=0.0)
    wide = y.to(tl.float32)
    turned = tl.fma(tl.where(is_first, -wide, wide), sine, x.to(tl.float32) * cosine)
    return turned.to(x.dtype)


# Not specialized on the layer: one compiled kernel serves all layers.
@triton.jit(do_not_specialize=["layer", "table_width"])
def _rotate_and_store(
    qkv: tl.tensor,
    cosines: tl.tensor,
    sines: tl.tensor,
    positions: tl.tensor,
    tables: tl.tensor,
    table_of: tl.tensor,
    pool: tl.tensor,
    query: tl.tensor,
    layer: tl.tensor,
    table_width: tl.tensor,
    layers: tl.constexpr,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    block_size: tl.constexpr,
    half: tl.constexpr,
    block: tl.constexpr,
    heads_at_once: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * heads_at_once + tl.arange(0, heads_at_once)
    column = tl.arange(0, block)
    inside = column < half
    exists = head < heads + 2 * kv_heads

    sequence = tl.load(table_of + row).to(tl.int64)
    used = sequence >= 0
    position = tl.load(positions + row, mask=used, other=0)
    physical = tl.load(tables + sequence * table_width + position // block_size, mask=used, other=0)
    angle = position.to(tl.int64) * (2 * half) + column
    cosine = tl.load(cosines + angle, mask=inside, other=0.0)[None, :]
    sine = tl.load(sines + angle, mask=inside, other=0.0)[None, :]
    later_cosine = tl.load(cosines + angle + half, mask=inside, other=0.0)[None, :]
    later_sine = tl.load(sines + angle + half, mask=inside, other=0.0)[None, :]
    if overlap:
        follow()

    place = (row * (heads + 2 * kv_heads) + head[:, None]) * (2 * half) + column[None, :]
    mask = (exists & used)[:, None] & inside[None, :]
    first = tl.load(qkv + place, mask=mask, other=0.0)
    second = tl.load(qkv + place + half, mask=mask, other=0.0)
    x, y = first.to(tl.float32), second.to(tl.float32)
    x_rotated = tl.fma(-y, sine, x * cosine)
    y_rotated = tl.fma(x, later_sine, y * later_cosine)
    is_value = (head >= heads + kv_heads)[:, None]
    first = tl.where(is_value, x, x_rotated).to(qkv.dtype.element_ty)
    second = tl.where(is_value, y, y_rotated).to(qkv.dtype.element_ty)

    # A padding row was loaded as zeros, so its query is stored as zeros.
    is_query = (head < heads)[:, None] & inside[None, :]
    place = (row * heads + head[:, None]) * (2 * half) + column[None, :]
    tl.store(query + place, first, mask=is_query)
    tl.store(query + place + half, second, mask=is_query)

    # In a layer of a block, the heads of the values follow those of the keys. So the index of a
    # head among keys and values gives its place.
    in_pool = (physical.to(tl.int64) * layers + layer) * (2 * kv_heads) + (head - heads)
    slot = position % block_size
    scaled: tl.constexpr = pool.dtype.element_ty == tl.int8
    target = pool + in_pool * (block_size * (2 * half + 4 * scaled))
    is_stored = mask & (head >= heads)[:, None]
    if scaled:
        peak = tl.maximum(absmax(first, 1), absmax(second, 1))
        first, second = quantize(first, peak[:, None]), quantize(second, peak[:, None])
        scales = scale_address(target, slot, block_size, 2 * half)
        tl.store(scales, scale_of(peak), mask=exists & used & (head >= heads))
    place = target[:, None] + slot * (2 * half) + column[None, :]
    tl.store(place, first.to(pool.dtype.element_ty), mask=is_stored)
    tl.store(place + half, second.to(pool.dtype.element_ty), mask=is_stored)
