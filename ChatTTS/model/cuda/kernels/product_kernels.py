"""The kernels of ``products.py``: ways to compute numbers that are the same to the last bit.

In 16 bits, the inputs are dealt to four parts, 64 at a time in turn. A part is one chain of sums on
the matrix units, 16 inputs a link, and the parts are added one after the other. The kernels differ
in what computes the parts: warps side by side, or all warps one part after the other. In float32,
which the matrix units would round, each of 128 lanes has the inputs of its own, in one chain, and
the lanes are added up in a tree.

Which rows and outputs a program has, and how many warps, touches no number's own sum. On an H100
this was compared bit by bit, ``mma`` and ``wgmma`` instructions alike; ``gpu_kernels.py`` of the
benchmarks and the tests do so again.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .overlap import follow

# Parts of a product in 16 bits, and the inputs that one has of each round. ``_joined`` knows that
# there are four.
PARTS = tl.constexpr(4)
DEPTH = tl.constexpr(64)
# Lanes of a product in float32.
LANES = tl.constexpr(128)
# Their rounds that are on their way, and one more.
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
    """The norm by itself, with the bits that :func:`product_at_once` gives it. A program stores
    one round's inputs."""
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


@triton.jit(do_not_specialize=["rows"])
def product_at_once(
    x: tl.tensor,
    weight: tl.tensor,
    norm_weight: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    normed: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
    overlap: tl.constexpr,
    widen: tl.constexpr,
) -> None:
    """Parts side by side, for few rows: all weights of the program are on their way before it
    waits for the launch before, and all of its rows before it computes anything."""
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    lane = tl.arange(0, PARTS)[:, None] * DEPTH + tl.arange(0, DEPTH)[None, :]
    turns: tl.constexpr = (inputs + PARTS * DEPTH - 1) // (PARTS * DEPTH)
    weights: tl.tuple = ()
    for turn in tl.static_range(turns):
        at = turn * PARTS * DEPTH + lane
        place, mask = _weight_places(weight, column, column < outputs, at, at < inputs, inputs)
        weights += (tl.load(place, mask=mask, other=0.0),)
        if gated:
            weights += (tl.load(place + outputs * inputs, mask=mask, other=0.0),)
    if overlap:
        follow()
    parts: tl.tuple = ()
    for turn in tl.static_range(turns):
        at = turn * PARTS * DEPTH + lane
        parts += (_load_rows(x, row, row < rows, at, at < inputs, inputs),)
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
            at = turn * PARTS * DEPTH + lane
            part = _normed(part, scale, tl.load(norm_weight + at, mask=at < inputs, other=0.0))
        sums = _dot(part, weights[turn * (1 + gated)], sums, widen)
        if gated:
            other_sums = _dot(part, weights[turn * 2 + 1], other_sums, widen)
    found = _joined(sums, tile_rows, tile_outputs)
    other = found
    if gated:
        other = _joined(other_sums, tile_rows, tile_outputs)
    _finish(found, other, out, row, rows, column, outputs, gated, added)


@triton.jit(do_not_specialize=["rows"])
def product_in_turns(
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
    overlap: tl.constexpr,
    widen: tl.constexpr,
) -> None:
    """Parts side by side, a round after the other: for more rows or inputs than fit at once."""
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    lane = tl.arange(0, PARTS)[:, None] * DEPTH + tl.arange(0, DEPTH)[None, :]
    sums = tl.zeros([PARTS, tile_rows, tile_outputs], tl.float32)
    other_sums = tl.zeros([PARTS, tile_rows, tile_outputs], tl.float32)
    if overlap:
        follow()
    for first in range(0, inputs, PARTS * DEPTH):
        at = first + lane
        inside = at < inputs
        part = _load_rows(x, row, row < rows, at, inside, inputs)
        place, mask = _weight_places(weight, column, column < outputs, at, inside, inputs)
        sums = _dot(part, tl.load(place, mask=mask, other=0.0), sums, widen)
        if gated:
            other = tl.load(place + outputs * inputs, mask=mask, other=0.0)
            other_sums = _dot(part, other, other_sums, widen)
    found = _joined(sums, tile_rows, tile_outputs)
    other = found
    if gated:
        other = _joined(other_sums, tile_rows, tile_outputs)
    _finish(found, other, out, row, rows, column, outputs, gated, added)


@triton.jit(do_not_specialize=["rows"])
def product_in_tiles(
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    turns: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
    overlap: tl.constexpr,
    widen: tl.constexpr,
) -> None:
    """One part after the other, for many rows: all warps share what is read."""
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    zero = tl.zeros([tile_rows, tile_outputs], tl.float32)
    found, other = zero, zero
    sums, other_sums = zero, zero
    if overlap:
        follow()
    for step in range(PARTS * turns):
        turn = step % turns
        at = (turn * PARTS + step // turns) * DEPTH + tl.arange(0, DEPTH)
        inside = at < inputs
        mask = (row < rows)[:, None] & inside[None, :]
        part = tl.load(x + row[:, None] * inputs + at[None, :], mask=mask, other=0.0)
        mask = (column < outputs)[None, :] & inside[:, None]
        place = weight + column[None, :] * inputs + at[:, None]
        sums = _dot(part, tl.load(place, mask=mask, other=0.0), sums, widen)
        if gated:
            second = tl.load(place + outputs * inputs, mask=mask, other=0.0)
            other_sums = _dot(part, second, other_sums, widen)
        if turn == turns - 1:
            found += sums
            sums = zero
            if gated:
                other += other_sums
                other_sums = zero
    _finish(found, other, out, row, rows, column, outputs, gated, added)


@triton.jit(do_not_specialize=["rows"])
def product_by_lanes(
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Without matrix units, for float32."""
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    sums = tl.zeros([tile_rows, tile_outputs, LANES], tl.float32)
    other_sums = tl.zeros([tile_rows, tile_outputs, LANES], tl.float32)
    if overlap:
        follow()
    for first in tl.range(0, inputs, LANES, num_stages=AHEAD):
        at = first + tl.arange(0, LANES)
        inside = (at < inputs)[None, None, :]
        place = x + row[:, None, None] * inputs + at[None, None, :]
        part = tl.load(place, mask=(row < rows)[:, None, None] & inside, other=0.0)
        mask = (column < outputs)[None, :, None] & inside
        place = weight + column[None, :, None] * inputs + at[None, None, :]
        sums = part * tl.load(place, mask=mask, other=0.0) + sums
        if gated:
            other = tl.load(place + outputs * inputs, mask=mask, other=0.0)
            other_sums = part * other + other_sums
    found = tl.sum(sums, axis=2)
    other = found
    if gated:
        other = tl.sum(other_sums, axis=2)
    _finish(found, other, out, row, rows, column, outputs, gated, added)


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
def _weight_places(
    weight: tl.tensor,
    column: tl.tensor,
    column_exists: tl.tensor,
    at: tl.tensor,
    inside: tl.tensor,
    inputs: tl.constexpr,
) -> tl.tuple:
    """Return where the weights of the inputs ``at`` [parts, depth] are, and which of them exist,
    each [parts, depth, outputs]."""
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
    """One over the root mean square of every row [rows], of squares [parts, rows, depth]."""
    squares = tl.reshape(tl.sum(squares, axis=2), (PARTS, tile_rows, 1))
    return tl.rsqrt(tl.reshape(_joined(squares, tile_rows, 1), (tile_rows,)) / inputs + eps)


@triton.jit
def _normed(part: tl.tensor, scale: tl.tensor, gain: tl.tensor) -> tl.tensor:
    """[parts, rows, depth], rounded after either factor."""
    scaled = (part.to(tl.float32) * scale[None, :, None]).to(part.dtype)
    return (scaled.to(tl.float32) * gain.to(tl.float32)[:, None, :]).to(part.dtype)


@triton.jit
def _dot(part: tl.tensor, weight: tl.tensor, sums: tl.tensor, widen: tl.constexpr) -> tl.tensor:
    if widen:
        part, weight = part.to(tl.float32), weight.to(tl.float32)
    return tl.dot(part, weight, sums, input_precision="ieee")


@triton.jit
def _joined(sums: tl.tensor, tile_rows: tl.constexpr, tile_outputs: tl.constexpr) -> tl.tensor:
    """The four parts [parts, rows, outputs] in one, added in their order. A sum along their axis
    would be in an order of the compiler's, through shared memory that its warps fight for."""
    parts = tl.reshape(tl.permute(sums, (1, 2, 0)), (tile_rows, tile_outputs, 2, 2))
    even, odd = tl.split(parts)
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return ((first + second) + third) + fourth


@triton.jit
def _finish(
    found: tl.tensor,
    other: tl.tensor,
    out: tl.tensor,
    row: tl.tensor,
    rows: tl.tensor,
    column: tl.tensor,
    outputs: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
) -> tl.tensor:
    """Store a tile, rounded as one operator after another would; what was stored."""
    found = _rounded(found, out)
    if gated:
        found = _rounded(found * tl.sigmoid(found), out)
        found = _rounded(found * _rounded(other, out), out)
    mask = (row < rows)[:, None] & (column < outputs)[None, :]
    place = out + row[:, None] * outputs + column[None, :]
    if added:
        found += tl.load(place, mask=mask, other=0.0).to(tl.float32)
    tl.store(place, found.to(out.dtype.element_ty), mask=mask)
    return found


@triton.jit
def _rounded(wide: tl.tensor, out: tl.tensor) -> tl.tensor:
    """Numbers that the dtype of ``out`` can hold, in float32."""
    return wide.to(out.dtype.element_ty).to(tl.float32)
