"""The kernels of ``products.py``: different ways to compute a product, with equal bits.

In 16 bits, the inputs are split among four parts, in turns of 64. Each part is summed on the matrix
units, 16 inputs after another, and then the parts are added in order. The kernels differ in what
computes the parts: either different warps at once, or all warps one part after another. In float32,
which the matrix units would round, each of 128 lanes sums its own inputs in order, and the lanes
are added in a tree.

Weights in eight bits are whole numbers, which 16 bits hold exactly. Such a weight is widened to the
dtype of the rows when it is multiplied, and each finished sum is multiplied by the scale of its
output. With ``scales`` of ``None`` nothing of that is compiled.

The rows, outputs and warps of a program do not change the order of any sum. This was compared bit
by bit on an H100, for both ``mma`` and ``wgmma`` instructions; ``benchmarks/gpu/bits.py`` and the
tests repeat the comparison.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .dependent_launch import follow
from .low_rank import from_ranks, with_ranks

# Parts of a product in 16 bits, and the inputs of one part in each round. ``joined`` relies on
# there being four parts.
PARTS = tl.constexpr(4)
DEPTH = tl.constexpr(64)
# Lanes of a product in float32.
LANES = tl.constexpr(128)
# One more than the number of its rounds that are being loaded.
AHEAD = tl.constexpr(4)


@triton.jit(do_not_specialize=["rows"])
def norm_rows(
    x: tl.tensor,
    norm_weight: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    inputs: tl.constexpr,
    tile_rows: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Compute the norm alone, with bits equal to those of :func:`product_at_once`.

    A program stores the inputs of one round.
    """
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    lane = tl.arange(0, PARTS)[:, None] * DEPTH + tl.arange(0, DEPTH)[None, :]
    if overlap:
        follow()
    squares = tl.zeros([PARTS, tile_rows, DEPTH], tl.float32)
    for turn in tl.static_range((inputs + PARTS * DEPTH - 1) // (PARTS * DEPTH)):
        at = turn * PARTS * DEPTH + lane
        squares = _squared(_load_rows(x, row, row < rows, at, at < inputs, inputs), squares)
    scale = _scale(squares, eps, inputs, tile_rows)
    at = tl.program_id(1) * PARTS * DEPTH + lane
    mask = (row < rows)[None, :, None] & (at < inputs)[:, None, :]
    place = row[None, :, None] * inputs + at[:, None, :]
    part = tl.load(x + place, mask=mask, other=0.0)
    part = _normed(part, scale, tl.load(norm_weight + at, mask=at < inputs, other=0.0))
    tl.store(out + place, part, mask=mask)


@triton.jit(do_not_specialize=["rows", "most"])
def product_at_once(
    x: tl.tensor,
    weight: tl.tensor,
    scales: tl.tensor | None,
    norm_weight: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    ranks: tl.tensor,
    up: tl.tensor,
    starts: tl.tensor,
    adapter_of: tl.tensor,
    most: tl.tensor,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    normed: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
    overlap: tl.constexpr,
    widen: tl.constexpr,
    stacked: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    """Compute all parts at once, for few rows.

    A program requests all its weights and gains before it waits for the previous launch, and all
    its rows, and what is added, before it computes anything.
    """
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    lane = tl.arange(0, PARTS)[:, None] * DEPTH + tl.arange(0, DEPTH)[None, :]
    turns: tl.constexpr = (inputs + PARTS * DEPTH - 1) // (PARTS * DEPTH)
    weights: tl.tuple = ()
    for turn in tl.static_range(turns):
        at = turn * PARTS * DEPTH + lane
        place, mask = weight_places(weight, column, column < outputs, at, at < inputs, inputs)
        weights += (tl.load(place, mask=mask, other=0.0),)
        if gated:
            weights += (tl.load(place + outputs * inputs, mask=mask, other=0.0),)
    gains: tl.tuple = ()
    if normed:
        for turn in tl.static_range(turns):
            at = turn * PARTS * DEPTH + lane
            gains += (tl.load(norm_weight + at, mask=at < inputs, other=0.0),)
    own_scales = scales_of(scales, column, outputs, gated)
    if overlap:
        follow()
    parts: tl.tuple = ()
    for turn in tl.static_range(turns):
        at = turn * PARTS * DEPTH + lane
        parts += (_load_rows(x, row, row < rows, at, at < inputs, inputs),)
    before = before_product(out, row, rows, column, outputs, added)
    extra = from_ranks(
        ranks, up, starts, adapter_of, row, rows, column, outputs, most, stacked, wide, tile_outputs
    )
    if normed:
        squares = tl.zeros([PARTS, tile_rows, DEPTH], tl.float32)
        for turn in tl.static_range(turns):
            squares = _squared(parts[turn], squares)
        scale = _scale(squares, eps, inputs, tile_rows)
    sums = tl.zeros([PARTS, tile_rows, tile_outputs], tl.float32)
    other_sums = tl.zeros([PARTS, tile_rows, tile_outputs], tl.float32)
    for turn in tl.static_range(turns):
        part = parts[turn]
        if normed:
            part = _normed(part, scale, gains[turn])
        sums = dot(part, weights[turn * (1 + gated)], sums, widen)
        if gated:
            other_sums = dot(part, weights[turn * 2 + 1], other_sums, widen)
    found = joined(sums, tile_rows, tile_outputs)
    other = found
    if gated:
        other = joined(other_sums, tile_rows, tile_outputs)
    found, other = with_scales(found, other, own_scales, scales, gated)
    found, other = with_ranks(found, other, extra, stacked, gated)
    finish(found, other, before, out, row, rows, column, outputs, gated, added)


@triton.jit(do_not_specialize=["rows", "most"])
def product_in_turns(
    x: tl.tensor,
    weight: tl.tensor,
    scales: tl.tensor | None,
    out: tl.tensor,
    rows: tl.tensor,
    ranks: tl.tensor,
    up: tl.tensor,
    starts: tl.tensor,
    adapter_of: tl.tensor,
    most: tl.tensor,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
    overlap: tl.constexpr,
    widen: tl.constexpr,
    stacked: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    """Compute all parts at once, round by round, for more rows or inputs than fit in memory."""
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    lane = tl.arange(0, PARTS)[:, None] * DEPTH + tl.arange(0, DEPTH)[None, :]
    sums = tl.zeros([PARTS, tile_rows, tile_outputs], tl.float32)
    other_sums = tl.zeros([PARTS, tile_rows, tile_outputs], tl.float32)
    own_scales = scales_of(scales, column, outputs, gated)
    if overlap:
        follow()
    before = before_product(out, row, rows, column, outputs, added)
    extra = from_ranks(
        ranks, up, starts, adapter_of, row, rows, column, outputs, most, stacked, wide, tile_outputs
    )
    for first in range(0, inputs, PARTS * DEPTH):
        at = first + lane
        inside = at < inputs
        part = _load_rows(x, row, row < rows, at, inside, inputs)
        place, mask = weight_places(weight, column, column < outputs, at, inside, inputs)
        sums = dot(part, tl.load(place, mask=mask, other=0.0), sums, widen)
        if gated:
            other = tl.load(place + outputs * inputs, mask=mask, other=0.0)
            other_sums = dot(part, other, other_sums, widen)
    found = joined(sums, tile_rows, tile_outputs)
    other = found
    if gated:
        other = joined(other_sums, tile_rows, tile_outputs)
    found, other = with_scales(found, other, own_scales, scales, gated)
    found, other = with_ranks(found, other, extra, stacked, gated)
    finish(found, other, before, out, row, rows, column, outputs, gated, added)


@triton.jit(do_not_specialize=["rows", "most"])
def product_in_tiles(
    x: tl.tensor,
    weight: tl.tensor,
    scales: tl.tensor | None,
    out: tl.tensor,
    rows: tl.tensor,
    ranks: tl.tensor,
    up: tl.tensor,
    starts: tl.tensor,
    adapter_of: tl.tensor,
    most: tl.tensor,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    turns: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
    overlap: tl.constexpr,
    widen: tl.constexpr,
    stacked: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    """Compute one part after another, for many rows: all warps share what is read."""
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    zero = tl.zeros([tile_rows, tile_outputs], tl.float32)
    found, other = zero, zero
    sums, other_sums = zero, zero
    own_scales = scales_of(scales, column, outputs, gated)
    if overlap:
        follow()
    before = before_product(out, row, rows, column, outputs, added)
    extra = from_ranks(
        ranks, up, starts, adapter_of, row, rows, column, outputs, most, stacked, wide, tile_outputs
    )
    for step in range(PARTS * turns):
        turn = step % turns
        at = (turn * PARTS + step // turns) * DEPTH + tl.arange(0, DEPTH)
        inside = at < inputs
        mask = (row < rows)[:, None] & inside[None, :]
        part = tl.load(x + row[:, None] * inputs + at[None, :], mask=mask, other=0.0)
        mask = (column < outputs)[None, :] & inside[:, None]
        place = weight + column[None, :] * inputs + at[:, None]
        sums = dot(part, tl.load(place, mask=mask, other=0.0), sums, widen)
        if gated:
            second = tl.load(place + outputs * inputs, mask=mask, other=0.0)
            other_sums = dot(part, second, other_sums, widen)
        if turn == turns - 1:
            found += sums
            sums = zero
            if gated:
                other += other_sums
                other_sums = zero
    found, other = with_scales(found, other, own_scales, scales, gated)
    found, other = with_ranks(found, other, extra, stacked, gated)
    finish(found, other, before, out, row, rows, column, outputs, gated, added)


@triton.jit(do_not_specialize=["rows", "most"])
def product_by_lanes(
    x: tl.tensor,
    weight: tl.tensor,
    scales: tl.tensor | None,
    out: tl.tensor,
    rows: tl.tensor,
    ranks: tl.tensor,
    up: tl.tensor,
    starts: tl.tensor,
    adapter_of: tl.tensor,
    most: tl.tensor,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
    overlap: tl.constexpr,
    stacked: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    """Compute the product without matrix units, for float32."""
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    sums = tl.zeros([tile_rows, tile_outputs, LANES], tl.float32)
    other_sums = tl.zeros([tile_rows, tile_outputs, LANES], tl.float32)
    own_scales = scales_of(scales, column, outputs, gated)
    if overlap:
        follow()
    before = before_product(out, row, rows, column, outputs, added)
    extra = from_ranks(
        ranks, up, starts, adapter_of, row, rows, column, outputs, most, stacked, wide, tile_outputs
    )
    for first in tl.range(0, inputs, LANES, num_stages=AHEAD):
        at = first + tl.arange(0, LANES)
        inside = (at < inputs)[None, None, :]
        place = x + row[:, None, None] * inputs + at[None, None, :]
        part = tl.load(place, mask=(row < rows)[:, None, None] & inside, other=0.0)
        mask = (column < outputs)[None, :, None] & inside
        place = weight + column[None, :, None] * inputs + at[None, None, :]
        sums = part * tl.load(place, mask=mask, other=0.0).to(tl.float32) + sums
        if gated:
            other = tl.load(place + outputs * inputs, mask=mask, other=0.0)
            other_sums = part * other.to(tl.float32) + other_sums
    found = tl.sum(sums, axis=2)
    other = found
    if gated:
        other = tl.sum(other_sums, axis=2)
    found, other = with_scales(found, other, own_scales, scales, gated)
    found, other = with_ranks(found, other, extra, stacked, gated)
    finish(found, other, before, out, row, rows, column, outputs, gated, added)


@triton.jit
def _load_rows(
    x: tl.tensor,
    row: tl.tensor,
    row_exists: tl.tensor,
    at: tl.tensor,
    inside: tl.tensor,
    inputs: tl.constexpr,
) -> tl.tensor:
    """Return the inputs ``at`` [parts, depth] of rows, as [parts, rows, depth]."""
    mask = row_exists[None, :, None] & inside[:, None, :]
    return tl.load(x + row[None, :, None] * inputs + at[:, None, :], mask=mask, other=0.0)


@triton.jit
def weight_places(
    weight: tl.tensor,
    column: tl.tensor,
    column_exists: tl.tensor,
    at: tl.tensor,
    inside: tl.tensor,
    inputs: tl.constexpr,
) -> tl.tuple:
    """Return the addresses of the weights of the inputs ``at`` [parts, depth], and a mask.

    Both are [parts, depth, outputs]; the mask tells which of the weights exist.
    """
    mask = column_exists[None, None, :] & inside[:, :, None]
    return weight + column[None, None, :] * inputs + at[:, :, None], mask


@triton.jit
def _squared(part: tl.tensor, squares: tl.tensor) -> tl.tensor:
    wide = part.to(tl.float32)
    return squares + wide * wide


@triton.jit
def _scale(
    squares: tl.tensor, eps: tl.tensor, inputs: tl.constexpr, tile_rows: tl.constexpr
) -> tl.tensor:
    """Return one over the root mean square of every row, [rows].

    ``squares`` is [parts, rows, depth], sums of the squares of the inputs.
    """
    squares = tl.reshape(tl.sum(squares, axis=2), (PARTS, tile_rows, 1))
    return tl.rsqrt(tl.reshape(joined(squares, tile_rows, 1), (tile_rows,)) / inputs + eps)


@triton.jit
def _normed(part: tl.tensor, scale: tl.tensor, gain: tl.tensor) -> tl.tensor:
    """Scale and weight ``part`` [parts, rows, depth], rounding after each of the two products."""
    scaled = (part.to(tl.float32) * scale[None, :, None]).to(part.dtype)
    return (scaled.to(tl.float32) * gain.to(tl.float32)[:, None, :]).to(part.dtype)


@triton.jit
def dot(part: tl.tensor, weight: tl.tensor, sums: tl.tensor, widen: tl.constexpr) -> tl.tensor:
    if widen:
        part, weight = part.to(tl.float32), weight.to(tl.float32)
    return tl.dot(part, weight.to(part.dtype), sums, input_precision="ieee")


@triton.jit
def joined(sums: tl.tensor, tile_rows: tl.constexpr, tile_outputs: tl.constexpr) -> tl.tensor:
    """Add the four parts of ``sums`` [parts, rows, outputs] in order, to [rows, outputs].

    For a sum along that axis the compiler would choose the order, and warps would contend for
    shared memory.
    """
    parts = tl.reshape(tl.permute(sums, (1, 2, 0)), (tile_rows, tile_outputs, 2, 2))
    even, odd = tl.split(parts)
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return ((first + second) + third) + fourth


@triton.jit
def scales_of(
    scales: tl.tensor | None, column: tl.tensor, outputs: tl.constexpr, gated: tl.constexpr
) -> tl.tuple:
    """Return the scales of a tile's outputs, for :func:`with_scales`; of a gate, those of both.

    It is empty where weights have no scales. A program requests them before it waits for the
    previous launch.
    """
    found: tl.tuple = ()
    if scales is not None:
        found += (tl.load(scales + column, mask=column < outputs, other=0.0)[None, :],)
        if gated:
            other = tl.load(scales + outputs + column, mask=column < outputs, other=0.0)
            found += (other[None, :],)
    return found


@triton.jit
def with_scales(
    found: tl.tensor,
    other: tl.tensor,
    own: tl.tuple,
    scales: tl.tensor | None,
    gated: tl.constexpr,
) -> tl.tuple:
    """Return both products of a tile, times what :func:`scales_of` found.

    Each is rounded here in every kernel: a compiler may fuse a plain product with a later sum.
    """
    if scales is not None:
        found = tl.fma(found, own[0], 0.0)
        if gated:
            other = tl.fma(other, own[1], 0.0)
    return found, other


@triton.jit
def before_product(
    out: tl.tensor,
    row: tl.tensor,
    rows: tl.tensor,
    column: tl.tensor,
    outputs: tl.constexpr,
    added: tl.constexpr,
) -> tl.tensor:
    """Return the tile to which the product is added; without ``added`` it is never read.

    A program requests it before the product, so that it does not wait for it afterwards.
    """
    mask = (row < rows)[:, None] & (column < outputs)[None, :] & added
    return tl.load(out + row[:, None] * outputs + column[None, :], mask=mask, other=0.0)


@triton.jit
def finish(
    found: tl.tensor,
    other: tl.tensor,
    before: tl.tensor,
    out: tl.tensor,
    row: tl.tensor,
    rows: tl.tensor,
    column: tl.tensor,
    outputs: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
) -> tl.tensor:
    """Store a tile, rounded as separate operators would round it, and return what was stored.

    ``before`` is what :func:`before_product` returned.
    """
    found = _rounded(found, out)
    if gated:
        found = _rounded(found * tl.sigmoid(found), out)
        found = _rounded(found * _rounded(other, out), out)
    if added:
        found += before.to(tl.float32)
    mask = (row < rows)[:, None] & (column < outputs)[None, :]
    place = out + row[:, None] * outputs + column[None, :]
    tl.store(place, found.to(out.dtype.element_ty), mask=mask)
    return found


@triton.jit
def _rounded(wide: tl.tensor, out: tl.tensor) -> tl.tensor:
    """Round numbers to the dtype of ``out``, and return them as float32."""
    return wide.to(out.dtype.element_ty).to(tl.float32)
