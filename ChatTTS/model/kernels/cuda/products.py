"""Products of rows with large weights, fused with the norm before and the addition after them.

With few rows, a product takes the time of reading its weights. With many rows, repeated reads of
rows and weights decide. So there are several kernels, and several tile sizes for each. All of them
compute equal bits. So the number of rows may select the kernel, and no bit of a row depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from ....errors import ConfigError
from ..torch_references import rms_norm_torch
from .dependent_launch import TRITON, capability, launch_options, overlaps
from .launching import launcher
from .low_rank import RowRanks, add_ranks_torch, rank_arguments
from .product_kernels import (
    DEPTH,
    PARTS,
    norm_rows,
    product_at_once,
    product_by_lanes,
    product_in_tiles,
    product_in_turns,
)
from .swiglu import swiglu_torch

# Inputs of one round over all parts.
_ROUND = PARTS.value * DEPTH.value
# Rows of a program that computes only the norm.
_NORM_ROWS = 16
# The most inputs for which one kernel norms and multiplies rows: it holds them in registers.
_MAX_NORMED = 1024
# Up to this many rows, the repeated reads of the weights (every 16 or 32 rows) hit the nearest
# cache.
_FEW_ROWS = 32
_SOME_ROWS = 64
# Outputs of the smallest tile; before Triton 3.5 its matrix product needed at least 16.
_MIN_OUTPUTS = 8 if TRITON >= (3, 5) else 16
# At least this many large tiles keep a large GPU busy.
_MANY_TILES = 128
# Fewer tiles than this, of any size, do not keep it busy.
_FEW_TILES = 64
# Shared memory for a program that holds all its weights and rows: on the GPUs of data centres from
# compute capability 9.0 on, and on all others.
_HELD_BYTES_OF_LARGE = 208 << 10
_HELD_BYTES = 96 << 10
_LARGE = range(90, 120)
# GPUs of compute capability 10.0 use other matrix units for tiles of 64 rows and more. Whether
# these compute equal bits was not tested.
_OTHER_UNITS = 100


@dataclass(frozen=True)
class KernelConfig:
    """The kernel of a product, and its launch settings.

    Attributes:
        kernel: a product kernel of ``product_kernels.py``.
        tile_rows, tile_outputs: rows and outputs of a program.
        warps: warps of a program.
        stages: one more than the number of rounds being loaded; 1 for a kernel without rounds.
        norms: whether the kernel norms the rows itself.
    """

    kernel: triton.JITFunction
    tile_rows: int
    tile_outputs: int
    warps: int
    stages: int = 1
    norms: bool = False


def product(
    x: Tensor,
    weight: Tensor,
    *,
    norm: tuple[Tensor, float] | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
    out_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
    ranks: RowRanks | None = None,
    scales: Tensor | None = None,
) -> Tensor:
    """Multiply ``x`` by the transposed ``weight``, with sums in float32.

    Args:
        x: [rows, inputs], contiguous.
        weight: [outputs, inputs], contiguous, in the dtype of ``x`` or in eight bits. It is read
            early: the last launch without overlap must not write it, nor any launch since; see
            ``dependent_launch.py``.
        norm: weight [inputs], in the dtype of ``x``, and eps of an RMSNorm that is applied to
            ``x`` first; ``norm.py`` describes it. The weight is read early too.
        residual: [rows, outputs], contiguous, sharing no memory with ``x``: the result is added to
            it in place.
        gated: ``weight`` is [2 * outputs, inputs], first the gate, then the other half; the result
            is silu(gate) * other.
        out_dtype: dtype of the result, by default that of ``x``. A ``residual`` keeps its dtype.
        out: [rows, outputs], contiguous; receives the result of a product without ``residual``.
        ranks: the rows at the ranks of their adapters, which add to each product what the ranks
            give. Rows without an adapter keep their bits.
        scales: float32 [outputs], contiguous, of a ``weight`` of int8, which they multiply; twice
            as many if ``gated``. They are read early too.

    Returns:
        [rows, outputs], which is ``residual`` or ``out`` if given. Each product, the silu, the
        gated product and the sum are rounded to the result's dtype, as separate operators would
        round them.

    Raises:
        ConfigError: more than one of ``out_dtype``, ``residual`` and ``out`` is given.
    """
    given = [each for each in (residual, out_dtype, out) if each is not None]
    if len(given) > 1:
        raise ConfigError("out_dtype is for a new result: leave it out if residual or out is given")
    rows = len(x)
    outputs = len(weight) // 2 if gated else len(weight)
    if out is None:
        out = x.new_empty(rows, outputs, dtype=out_dtype) if residual is None else residual
    if rows:
        config = choose_config(weight, rows, x.dtype, normed=norm is not None, gated=gated)
        how: dict[str, Any] = {"gated": gated, "added": residual is not None}
        compute(config, x, weight, out, norm=norm, **how, ranks=ranks, scales=scales)
    return out


def choose_config(
    weight: Tensor, rows: int, dtype: torch.dtype, *, normed: bool, gated: bool
) -> KernelConfig:
    """Return the fastest kernel and settings for so many rows, as measured on an H100.

    All choices compute equal bits.

    Args:
        dtype: of the rows. Of weights in eight bits nothing was measured; they take what weights in
            this dtype take.
    """
    stacked, inputs = weight.shape
    outputs = stacked // 2 if gated else stacked
    if dtype.itemsize > 2:
        return KernelConfig(product_by_lanes, 4 if rows <= 4 else 8, 8, 4)
    at_once = _at_once(rows, inputs, normed=normed, gated=gated)
    held = inputs <= _MAX_NORMED if normed else rows <= _FEW_ROWS or inputs <= _MAX_NORMED
    few = _FEW_ROWS if normed else _SOME_ROWS
    known = capability(weight)
    room = _HELD_BYTES_OF_LARGE if known in _LARGE else _HELD_BYTES
    if rows <= few and held and _bytes_at_once(at_once, inputs, gated=gated) <= room:
        return at_once
    # On 9.0 four warps multiply a tall tile together. Of weights in eight bits they take the inputs
    # in another order than one warp does.
    is_tall = known < _OTHER_UNITS and weight.dtype is not torch.int8
    tile_rows, tile_outputs = (64, 32) if is_tall else (32, 64)
    if triton.cdiv(rows, tile_rows) * triton.cdiv(outputs, tile_outputs) >= _MANY_TILES:
        return KernelConfig(product_in_tiles, tile_rows, tile_outputs, 4, 4)
    if rows <= _NORM_ROWS:
        return KernelConfig(product_in_turns, 16, 16, 4, 4)
    if rows <= _FEW_ROWS:
        return KernelConfig(product_in_turns, 32, 16, 4, 3)
    # There are too few tiles of any size to keep the GPU busy; square ones read the least.
    few_tiles = triton.cdiv(rows, 64) * triton.cdiv(outputs, 16) < _FEW_TILES
    return KernelConfig(product_in_turns, *((32, 32) if few_tiles else (64, 16)), 4, 3)


def _at_once(rows: int, inputs: int, *, normed: bool, gated: bool) -> KernelConfig:
    """Return the settings of :func:`~.product_kernels.product_at_once`."""
    if gated:
        tile_rows, tile_outputs, warps = (16, _MIN_OUTPUTS, 4) if rows <= 16 else (32, 32, 8)
    else:
        # More warps per program hide the time of reads and sums; many programs hide it as well.
        many = normed or (rows > 16 and inputs <= _MAX_NORMED)
        tile_rows, tile_outputs, warps = 16, 16, 4 if many else 8
    return KernelConfig(product_at_once, tile_rows, tile_outputs, warps, norms=normed)


def _bytes_at_once(config: KernelConfig, inputs: int, *, gated: bool) -> int:
    """Return the shared memory that a program needs, in bytes.

    It holds all weights of the program, and its rows: one round of normed rows, else all rounds.
    """
    whole: int = triton.cdiv(inputs, _ROUND) * _ROUND
    rows = config.tile_rows * (_ROUND if config.norms else whole)
    return 2 * (config.tile_outputs * (1 + gated) * whole + rows)


def compute(
    config: KernelConfig,
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    *,
    norm: tuple[Tensor, float] | None,
    gated: bool,
    added: bool,
    ranks: RowRanks | None = None,
    scales: Tensor | None = None,
) -> None:
    """Compute :func:`product` into ``out`` as ``config`` says.

    Args:
        config: the kernel and its settings.
        x: [rows, inputs].
        weight: [outputs, inputs], or [2 * outputs, inputs] if ``gated``.
        out: [rows, outputs], the tensor to write.
        norm: weight and eps of the RMSNorm to apply to ``x``.
        gated: whether the first half of ``weight`` is a gate.
        added: whether to add to ``out`` instead of overwriting it.
        ranks: what adapters add to; ``None`` if no row has one.
        scales: of a ``weight`` in eight bits.
    """
    rows, inputs = x.shape
    outputs = out.shape[1]
    turns = triton.cdiv(inputs, _ROUND)
    overlap = overlaps(x)
    options = launch_options(overlap)
    norm_weight, eps = norm or (x, 0.0)
    if norm is not None and not config.norms:
        raw, x = x, torch.empty_like(x)
        launcher(norm_rows, (triton.cdiv(rows, _NORM_ROWS), turns))(
            raw, norm_weight, x, rows, eps, inputs, _NORM_ROWS, overlap, num_warps=4, **options
        )
    given = {
        "x": x,
        "weight": weight,
        "scales": scales,
        "out": out,
        "rows": rows,
        "inputs": inputs,
        "outputs": outputs,
        "tile_rows": config.tile_rows,
        "tile_outputs": config.tile_outputs,
        "gated": gated,
        "added": added,
        "overlap": overlap,
        **rank_arguments(ranks, x),
    }
    if config.kernel is product_at_once:
        given |= {"norm_weight": norm_weight, "eps": eps, "normed": config.norms}
    if config.kernel is product_in_tiles:
        given["turns"] = turns
    if config.kernel is not product_by_lanes:
        # Triton's interpreter multiplies the bits of bfloat16 numbers as if they were integers.
        given["widen"] = not x.is_cuda
    grid = triton.cdiv(outputs, config.tile_outputs), triton.cdiv(rows, config.tile_rows)
    launcher(config.kernel, grid)(
        **given, num_warps=config.warps, num_stages=config.stages, **options
    )


def product_torch(
    x: Tensor,
    weight: Tensor,
    *,
    norm: tuple[Tensor, float] | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
    out_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
    ranks: RowRanks | None = None,
    scales: Tensor | None = None,
) -> Tensor:
    """Compute :func:`product` in plain torch."""
    if norm is not None:
        x = rms_norm_torch(x, *norm)
    dtype = (out_dtype or x.dtype) if residual is None else residual.dtype
    wide = x.float() @ weight.float().T
    if scales is not None:
        wide *= scales
    found = (wide if ranks is None else add_ranks_torch(wide, ranks)).to(dtype)
    if gated:
        found = swiglu_torch(found)
    if out is not None:
        return out.copy_(found)
    return found if residual is None else residual.add_(found)
