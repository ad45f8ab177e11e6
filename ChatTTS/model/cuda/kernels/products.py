"""Products of few rows with large weights, with the norm before and the addition after.

Such a product takes as long as its weights are read. So a program makes few outputs, and its
warps share the inputs among themselves: short sums side by side, added at the end. How the inputs
are shared depends on their number alone, and never on the rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ....errors import ConfigError

# Warps of a program, and the inputs that one of them takes in a step.
_PARTS = 8
_DEPTH = 32
# Rows and outputs of a program. The small tile makes more programs; the large one reads weights
# and rows less often. Every number is summed in the same order in both.
_SMALL_TILE = (16, 16)
_LARGE_TILE = (64, 32)
_FEW_ROWS = 64
# Shared memory for the steps that are on their way; two programs have room on a multiprocessor.
_AHEAD_BYTES = 96 << 10


def product(
    x: Tensor,
    weight: Tensor,
    *,
    norm: tuple[Tensor, float] | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """``x`` times the transposed ``weight``, summed in float32.

    Args:
        x: [rows, inputs], contiguous.
        weight: [outputs, inputs], contiguous, in the dtype of ``x``.
        norm: weight [inputs], in the dtype of ``x``, and eps of an RMSNorm that ``x`` goes
            through first, see ``norm.py``.
        residual: [rows, outputs], contiguous, and no part of ``x``'s memory: the result is added
            to it in place.
        gated: ``weight`` is [2 * outputs, inputs], the gate before the other half; the result is
            silu(gate) * other.
        out_dtype: of the result; that of ``x`` unless given. ``residual`` has its own.

    Returns:
        [rows, outputs], which is ``residual`` if given. Products, silu, their product and the sum
        are each rounded to its dtype, as one operator after another would.

    Raises:
        ConfigError: ``out_dtype`` beside ``residual``.
    """
    if residual is not None and out_dtype is not None:
        raise ConfigError("out_dtype is for a new result: leave it out where residual is given")
    rows, inputs = x.shape
    outputs = len(weight) // 2 if gated else len(weight)
    out = x.new_empty(rows, outputs, dtype=out_dtype) if residual is None else residual
    if not rows:
        return out
    norm_weight, eps = norm or (x, 0.0)
    # Single precision needs twice the registers, and the large tile has none to spare.
    small = rows <= _FEW_ROWS or x.element_size() > 2
    tile_rows, tile_outputs = _SMALL_TILE if small else _LARGE_TILE
    line_bytes = _PARTS * _DEPTH * x.element_size()
    step_bytes = (tile_rows + tile_outputs * (1 + gated)) * line_bytes
    # The compiler may take rows that were normed through shared memory once more.
    normed_bytes = 0 if norm is None else tile_rows * line_bytes
    ahead = (_AHEAD_BYTES - normed_bytes) // step_bytes
    ahead = min(ahead, triton.cdiv(inputs, _PARTS * _DEPTH))
    _product[(triton.cdiv(outputs, tile_outputs), triton.cdiv(rows, tile_rows))](
        x,
        weight,
        norm_weight,
        out,
        rows,
        eps,
        inputs,
        outputs,
        tile_rows,
        tile_outputs,
        _PARTS,
        _DEPTH,
        norm is not None,
        gated,
        residual is not None,
        # The interpreter multiplies the bits of bfloat16 as if they were whole numbers.
        not x.is_cuda,
        num_warps=_PARTS,
        num_stages=1 + ahead,
    )
    return out


def product_torch(
    x: Tensor,
    weight: Tensor,
    *,
    norm: tuple[Tensor, float] | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Twin of :func:`product`."""
    if norm is not None:
        norm_weight, eps = norm
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        x = norm_weight * (wide * scale).to(x.dtype)
    dtype = (out_dtype or x.dtype) if residual is None else residual.dtype
    found = (x.float() @ weight.float().T).to(dtype)
    if gated:
        gate, other = found.chunk(2, dim=-1)
        found = torch.nn.functional.silu(gate) * other
    return found if residual is None else residual.add_(found)


@triton.jit(do_not_specialize=["rows"])
def _product(
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
    parts: tl.constexpr,
    depth: tl.constexpr,
    normed: tl.constexpr,
    gated: tl.constexpr,
    added: tl.constexpr,
    widen: tl.constexpr,
) -> None:
    """One tile of the result. The sums are [parts, rows, outputs], and each warp has a part."""
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    lane = tl.arange(0, parts)[:, None] * depth + tl.arange(0, depth)[None, :]
    sums = tl.zeros([parts, tile_rows, tile_outputs], tl.float32)
    other_sums = tl.zeros([parts, tile_rows, tile_outputs], tl.float32)
    if normed:
        scale = _scale(x, row, rows, eps, inputs, tile_rows)
    for first in range(0, inputs, parts * depth):
        at = first + lane
        inside = at < inputs
        mask = (row < rows)[None, :, None] & inside[:, None, :]
        part = tl.load(x + row[None, :, None] * inputs + at[:, None, :], mask=mask, other=0.0)
        if normed:
            gain = tl.load(norm_weight + at, mask=inside, other=0.0).to(tl.float32)
            part = (part.to(tl.float32) * scale[None, :, None]).to(x.dtype.element_ty)
            part = (part.to(tl.float32) * gain[:, None, :]).to(x.dtype.element_ty)
        mask = (column < outputs)[None, None, :] & inside[:, :, None]
        place = weight + column[None, None, :] * inputs + at[:, :, None]
        sums = _dot(part, tl.load(place, mask=mask, other=0.0), sums, widen)
        if gated:
            other = tl.load(place + outputs * inputs, mask=mask, other=0.0)
            other_sums = _dot(part, other, other_sums, widen)

    found = _rounded(tl.sum(sums, axis=0), out)
    if gated:
        found = _rounded(found * tl.sigmoid(found), out)
        found = _rounded(found * _rounded(tl.sum(other_sums, axis=0), out), out)
    mask = (row < rows)[:, None] & (column < outputs)[None, :]
    place = out + row[:, None] * outputs + column[None, :]
    if added:
        found += tl.load(place, mask=mask, other=0.0).to(tl.float32)
    tl.store(place, found.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _scale(
    x: tl.tensor,
    row: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    inputs: tl.constexpr,
    tile_rows: tl.constexpr,
) -> tl.tensor:
    """One over the root mean square of every row [rows]."""
    lane = tl.arange(0, 256)
    squares = tl.zeros([tile_rows, 256], tl.float32)
    for first in range(0, inputs, 256):
        at = first + lane
        mask = (row < rows)[:, None] & (at < inputs)[None, :]
        part = tl.load(x + row[:, None] * inputs + at[None, :], mask=mask, other=0.0)
        squares += part.to(tl.float32) * part.to(tl.float32)
    return tl.rsqrt(tl.sum(squares, axis=1) / inputs + eps)


@triton.jit
def _dot(part: tl.tensor, weight: tl.tensor, sums: tl.tensor, widen: tl.constexpr) -> tl.tensor:
    if widen:
        part, weight = part.to(tl.float32), weight.to(tl.float32)
    return tl.dot(part, weight, sums, input_precision="ieee")


@triton.jit
def _rounded(wide: tl.tensor, out: tl.tensor) -> tl.tensor:
    """Numbers that the dtype of ``out`` can hold, in float32."""
    return wide.to(out.dtype.element_ty).to(tl.float32)
