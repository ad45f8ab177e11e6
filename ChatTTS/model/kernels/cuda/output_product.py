"""The merge of attention's splits, and the output projection of the merged rows, in one launch.

Every program merges its rows again, which takes less time than a launch while the rows are few. In
float32, where a step reads twice the bytes, the merge stays a launch of its own.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .attention import SPLIT, ContextSplits
from .dependent_launch import follow, launch_options, overlaps
from .launching import launcher
from .product_kernels import (
    DEPTH,
    PARTS,
    before_product,
    dot,
    finish,
    joined,
    product_at_once,
    scales_of,
    weight_places,
    with_scales,
)
from .products import choose_config, product, product_torch
from .split_merge import merged, row_length

# With more rows, the merge is a launch of its own.
_FEW_ROWS = 16


def product_of_splits(
    splits: ContextSplits, weight: Tensor, residual: Tensor, scales: Tensor | None = None
) -> Tensor:
    """Merge ``splits``, multiply the rows by the transposed ``weight``, and add to ``residual``.

    The bits are those of :meth:`~.attention.ContextSplits.merged` and
    :func:`~.products.product`.

    Args:
        splits: of [rows, heads] of any head size.
        weight: [outputs, heads * head size], contiguous. It is read early, as are the positions of
            the splits: the last launch without overlap must not write them, nor any launch since.
        residual: [rows, outputs], contiguous, in the dtype of the rows; changed in place.
        scales: of a ``weight`` in eight bits; see :func:`~.products.product`.

    Returns:
        ``residual``.
    """
    rows, heads, count, size = splits.sums.shape
    outputs, inputs = weight.shape
    config = choose_config(weight, rows, residual.dtype, normed=False, gated=False)
    if config.kernel is not product_at_once or rows > _FEW_ROWS:
        mixed = splits.merged(residual.dtype).flatten(1)
        return product(mixed, weight, residual=residual, scales=scales)
    if rows:
        overlap = overlaps(weight)
        grid = triton.cdiv(outputs, config.tile_outputs), triton.cdiv(rows, config.tile_rows)
        launcher(_product_of_splits, grid)(
            splits.sums,
            splits.stats,
            splits.table_of,
            splits.positions,
            weight,
            scales,
            residual,
            rows,
            count,
            heads,
            inputs,
            outputs,
            size,
            SPLIT,
            config.tile_rows,
            config.tile_outputs,
            overlap,
            one_head=size % DEPTH.value == 0,
            widen=not weight.is_cuda,
            num_warps=config.warps,
            num_stages=config.stages,
            **launch_options(overlap),
        )
    return residual


def product_of_splits_torch(
    splits: ContextSplits, weight: Tensor, residual: Tensor, scales: Tensor | None = None
) -> Tensor:
    """Compute :func:`product_of_splits` in plain torch."""
    mixed = splits.merged_torch(residual.dtype).flatten(1)
    return product_torch(mixed, weight, residual=residual, scales=scales)


@triton.jit(do_not_specialize=["rows", "splits"])
def _product_of_splits(
    sums: tl.tensor,
    stats: tl.tensor,
    table_of: tl.tensor,
    positions: tl.tensor,
    weight: tl.tensor,
    scales: tl.tensor | None,
    out: tl.tensor,
    rows: tl.tensor,
    splits: tl.tensor,
    heads: tl.constexpr,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    size: tl.constexpr,
    split_size: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    overlap: tl.constexpr,
    one_head: tl.constexpr,
    widen: tl.constexpr,
) -> None:
    """Compute what ``product_at_once`` computes from merged rows.

    ``one_head`` says that the ``DEPTH`` inputs of a part are always of one head.
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
    own_scales = scales_of(scales, column, outputs, False)
    used = tl.cdiv(row_length(table_of, positions, row, row < rows), split_size)
    max_used = tl.max(used, axis=0)
    if overlap:
        follow()
    before = before_product(out, row, rows, column, outputs, True)
    total = tl.zeros([PARTS, tile_rows, tile_outputs], tl.float32)
    for turn in tl.static_range(turns):
        at = turn * PARTS * DEPTH + lane
        if one_head:
            first = turn * PARTS * DEPTH + tl.arange(0, PARTS) * DEPTH
            head = (first // size)[:, None, None]
        else:
            head = (at // size)[:, None, :]
        there = tl.where(head < heads, used[None, :, None], 0)
        head += row[None, :, None] * heads
        part = merged(sums, stats, head, there, max_used, (at % size)[:, None, :], splits, size)
        part = part.to(out.dtype.element_ty)
        total = dot(part, weights[turn], total, widen)
    found = joined(total, tile_rows, tile_outputs)
    found, _ = with_scales(found, found, own_scales, scales, False)
    finish(found, found, before, out, row, rows, column, outputs, False, True)
