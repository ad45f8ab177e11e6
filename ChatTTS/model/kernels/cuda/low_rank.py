"""Additions of adapters (LoRA, Hu et al. 2021) to products: down to some ranks, and up again.

Each row has the number of its adapter, or none. A launch of its own takes rows to the ranks of
their adapters; then the kernels of ``product_kernels.py`` add what the ranks give to a product,
before anything else is done with it. All of it is computed in float32, whatever the weights are.

Each sum has one order, whatever the rows and tiles are: the inputs of a rank are summed by one
program, and the ranks are added one after another. A row without an adapter keeps its product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..torch_references import rms_norm_torch
from .dependent_launch import follow, launch_options, overlaps
from .launching import launcher

# The most inputs that a program takes at once.
_MAX_INPUTS = 1024
# Numbers of weights that a program holds: all inputs of some ranks, requested at once.
_HELD = 16 << 10
_MAX_RANKS = 4
# Ranks whose loads do not wait for one another.
_AHEAD = tl.constexpr(4)


@dataclass(frozen=True)
class LowRanks:
    """The additions of all adapters to a matrix, which may stack several projections.

    An adapter has ranks of its own for each projection. They stand adapter after adapter, and
    projection after projection.

    Attributes:
        down: float32 [ranks, inputs].
        up: float32 [ranks, outputs of the widest projection]; behind the outputs of its projection,
            a rank has zeros.
        starts: int32 [adapters * stacked + 1], where the ranks of each adapter's projections begin.
        stacked: how many projections the matrix stacks: one, two of equal size, or queries, keys
            and values, of which the first is the widest and the others have equal size.
        most: the most ranks of an adapter for a projection.
    """

    down: Tensor
    up: Tensor
    starts: Tensor
    stacked: int
    most: int


@dataclass(frozen=True)
class RowRanks:
    """Rows at the ranks of their adapters.

    Attributes:
        low: the adapters.
        adapter_of: int32 [rows], the number of each row's adapter, or -1.
        values: float32 [rows, stacked * most]. Of a row without an adapter, and behind the last
            rank of an adapter, they are undefined.
    """

    low: LowRanks
    adapter_of: Tensor
    values: Tensor


def to_ranks(
    x: Tensor, low: LowRanks, adapter_of: Tensor, *, norm: tuple[Tensor, float] | None = None
) -> RowRanks:
    """Take rows to the ranks of their adapters.

    Args:
        x: [rows, inputs], contiguous, of any float dtype.
        low: the adapters.
        adapter_of: int32 [rows], contiguous, the number of each row's adapter, or -1. It and the
            adapters are read early: the last launch without overlap must not write them, nor any
            launch since; see ``dependent_launch.py``.
        norm: weight and eps of an RMSNorm that is applied to ``x`` first; see ``norm.py``.
    """
    rows, inputs = x.shape
    values = torch.empty(rows, low.stacked * low.most, dtype=torch.float32, device=x.device)
    if rows:
        block = min(triton.next_power_of_2(inputs), _MAX_INPUTS)
        whole = triton.cdiv(inputs, block) * block
        tile = max(1, min(_MAX_RANKS, _HELD // triton.next_power_of_2(whole)))
        overlap = overlaps(x)
        norm_weight, eps = norm or (x, 0.0)
        launcher(_to_ranks, (rows, low.stacked * triton.cdiv(low.most, tile)))(
            x,
            norm_weight,
            low.down,
            low.starts,
            adapter_of,
            values,
            low.most,
            eps,
            inputs,
            low.stacked,
            norm is not None,
            tile,
            block,
            overlap,
            num_warps=4,
            **launch_options(overlap),
        )
    return RowRanks(low, adapter_of, values)


def to_ranks_torch(
    x: Tensor, low: LowRanks, adapter_of: Tensor, *, norm: tuple[Tensor, float] | None = None
) -> RowRanks:
    """Compute :func:`to_ranks` in plain torch."""
    if norm is not None:
        x = rms_norm_torch(x, *norm)
    values = torch.full((len(x), low.stacked * low.most), torch.nan, device=x.device)
    for rows, part, own in _groups(low, adapter_of):
        first = part * low.most
        values[rows, first : first + own.stop - own.start] = x[rows].float() @ low.down[own].T
    return RowRanks(low, adapter_of, values)


def add_ranks_torch(found: Tensor, ranks: RowRanks) -> Tensor:
    """Add what adapters add to a product, float32 [rows, outputs of all projections], in place."""
    low = ranks.low
    wide = low.up.shape[1]
    narrow = (found.shape[1] - wide) // max(1, low.stacked - 1)
    for rows, part, own in _groups(low, ranks.adapter_of):
        first = wide + (part - 1) * narrow if part else 0
        columns = slice(first, first + (narrow if part else wide))
        at = part * low.most
        values = ranks.values[rows, at : at + own.stop - own.start]
        found[rows, columns] += values @ low.up[own, : columns.stop - first]
    return found


def _groups(low: LowRanks, adapter_of: Tensor) -> Iterator[tuple[Tensor, int, slice]]:
    """Yield the rows of each adapter, a projection, and the adapter's ranks for it."""
    starts = low.starts.tolist()
    for number in sorted(set(adapter_of.tolist()) - {-1}):
        rows = (adapter_of == number).nonzero().squeeze(1)
        for part in range(low.stacked):
            place = number * low.stacked + part
            yield rows, part, slice(starts[place], starts[place + 1])


def rank_arguments(ranks: RowRanks | None, x: Tensor) -> dict[str, Any]:
    """Return the arguments of a product kernel that :func:`from_ranks` takes.

    Args:
        ranks: of the rows; without them the kernel reads none of these.
        x: any tensor, to stand for those that are never read.
    """
    if ranks is None:
        never_read = dict.fromkeys(("ranks", "up", "starts", "adapter_of"), x)
        return never_read | {"most": 0, "stacked": 0, "wide": 0}
    return {
        "ranks": ranks.values,
        "up": ranks.low.up,
        "starts": ranks.low.starts,
        "adapter_of": ranks.adapter_of,
        "most": ranks.low.most,
        "stacked": ranks.low.stacked,
        "wide": ranks.low.up.shape[1],
    }


@triton.jit(do_not_specialize=["most"])
def _to_ranks(
    x: tl.tensor,
    norm_weight: tl.tensor,
    down: tl.tensor,
    starts: tl.tensor,
    adapter_of: tl.tensor,
    values: tl.tensor,
    most: tl.tensor,
    eps: tl.tensor,
    inputs: tl.constexpr,
    stacked: tl.constexpr,
    normed: tl.constexpr,
    tile: tl.constexpr,
    block: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Compute some ranks of one projection, for one row.

    A program requests its weights before it waits for the previous launch.
    """
    row = tl.program_id(0)
    part = tl.program_id(1) % stacked
    rank = tl.program_id(1) // stacked * tile + tl.arange(0, tile)
    lane = tl.arange(0, block)
    turns: tl.constexpr = (inputs + block - 1) // block
    own = tl.load(adapter_of + row)
    start = starts + own * stacked + part
    first = tl.load(start, mask=own >= 0, other=0)
    count = tl.load(start + 1, mask=own >= 0, other=0) - first
    is_own = rank < count
    place = down + (first + rank).to(tl.int64)[:, None] * inputs
    weights: tl.tuple = ()
    gains: tl.tuple = ()
    for turn in tl.static_range(turns):
        at = turn * block + lane
        mask = is_own[:, None] & (at < inputs)[None, :]
        weights += (tl.load(place + at[None, :], mask=mask, other=0.0),)
        if normed:
            gains += (tl.load(norm_weight + at, mask=at < inputs, other=0.0),)
    if overlap:
        follow()
    given: tl.tuple = ()
    for turn in tl.static_range(turns):
        at = turn * block + lane
        mask = (at < inputs) & (count > 0)
        given += (tl.load(x + row * inputs + at, mask=mask, other=0.0),)
    scale = 1.0
    if normed:
        squares = tl.zeros([block], tl.float32)
        for turn in tl.static_range(turns):
            wide = given[turn].to(tl.float32)
            squares = tl.fma(wide, wide, squares)
        scale = tl.rsqrt(tl.sum(squares, axis=0) / inputs + eps)
    sums = tl.zeros([tile, block], tl.float32)
    for turn in tl.static_range(turns):
        own_inputs = given[turn]
        if normed:
            scaled = (own_inputs.to(tl.float32) * scale).to(own_inputs.dtype)
            gain = gains[turn].to(tl.float32)
            own_inputs = (scaled.to(tl.float32) * gain).to(own_inputs.dtype)
        sums = tl.fma(weights[turn], own_inputs.to(tl.float32)[None, :], sums)
    place = values + row * stacked * most + part * most + rank
    tl.store(place, tl.sum(sums, axis=1), mask=is_own)


@triton.jit
def from_ranks(
    ranks: tl.tensor,
    up: tl.tensor,
    starts: tl.tensor,
    adapter_of: tl.tensor,
    row: tl.tensor,
    rows: tl.tensor,
    column: tl.tensor,
    outputs: tl.constexpr,
    most: tl.tensor,
    stacked: tl.constexpr,
    wide: tl.constexpr,
    tile_outputs: tl.constexpr,
) -> tl.tuple:
    """Return what adapters add to a tile of a product, for :func:`with_ranks`.

    It is empty where ``stacked`` is 0: no row of the step has an adapter.

    Args:
        ranks: the ``values`` of :class:`RowRanks`.
        up, starts, adapter_of, most, stacked: see :class:`RowRanks` and :class:`LowRanks`.
        row, column: of the tile; some may not exist.
        rows, outputs: of the product.
        wide: outputs of the widest projection.
    """
    found: tl.tuple = ()
    if stacked > 0:
        own = tl.load(adapter_of + row, mask=row < rows, other=-1)[:, None]
        given = ranks + row[:, None] * stacked * most
        exists = (column < outputs)[None, :]
        place = up + column[None, :]
        if stacked == 3:
            second: tl.constexpr = (wide + outputs) // 2
            # Where tiles end with the projections, a number tells that of a whole tile.
            if wide % tile_outputs == 0 and second % tile_outputs == 0:
                at = tl.program_id(0) * tile_outputs
            else:
                at = column[None, :]
            which = (at >= wide).to(tl.int32) + (at >= second).to(tl.int32)
            place -= tl.where(which == 2, second, tl.where(which == 1, wide, 0))
            found = _projected(given, place, starts, own, exists, most, which, stacked, wide)
        else:
            found = _projected(given, place, starts, own, exists, most, 0, stacked, wide)
        if stacked == 2:
            found += _projected(given, place, starts, own, exists, most, 1, stacked, wide)
    return found


@triton.jit
def with_ranks(
    found: tl.tensor,
    other: tl.tensor,
    extra: tl.tuple,
    stacked: tl.constexpr,
    gated: tl.constexpr,
) -> tl.tuple:
    """Return both products of a tile with what :func:`from_ranks` found.

    Only a gated product has another one.
    """
    if stacked > 0:
        found = tl.where(extra[1], found + extra[0], found)
        if gated:
            other = tl.where(extra[3], other + extra[2], other)
    return found, other


@triton.jit
def _projected(
    given: tl.tensor,
    place: tl.tensor,
    starts: tl.tensor,
    own: tl.tensor,
    exists: tl.tensor,
    most: tl.tensor,
    which: tl.tensor,
    stacked: tl.constexpr,
    wide: tl.constexpr,
) -> tl.tuple:
    """Return what adapters add, float32 [rows, outputs], and where they add anything.

    Args:
        given: [rows, 1], where each row begins in ``ranks``.
        place: [1, outputs], the weights of the first rank of all.
        own: [rows, 1], the adapter of each row, or -1.
        exists: [1, outputs], which of the outputs there are.
        which: the projection; a number, or that of each output.
    """
    start = own * stacked + which
    first = tl.load(starts + start, mask=start >= 0, other=0)
    count = tl.load(starts + start + 1, mask=start >= 0, other=0) - first
    given += which * most
    place += first.to(tl.int64) * wide
    total = (count * 0 + exists.to(tl.int32) * 0).to(tl.float32)
    for begin in range(0, tl.max(tl.max(count, axis=1), axis=0), _AHEAD):
        for ahead in tl.static_range(_AHEAD):
            rank = begin + ahead
            is_there = rank < count
            value = tl.load(given + rank, mask=is_there, other=0.0)
            weight = tl.load(place + rank * wide, mask=is_there & exists, other=0.0)
            total = tl.where(is_there, tl.fma(value, weight, total), total)
    return total, count > 0
