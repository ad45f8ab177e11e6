"""Dense layers of the audio decoder: products of many rows, with what follows them in one launch.

All numbers of rows take one tile, and each output is one sum in the order of the inputs. So no bit
of a row depends on how many rows there are, nor on its place among them. That is what the samples
of an utterance owe to it: they are equal beside any others, in pieces of any length.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..torch_references import Residual
from .launching import launcher
from .product_kernels import dot

_TILE_ROWS, _TILE_OUTPUTS = 64, 32
# Inputs of one round: the matrix units take more at once than float32 arithmetic, whose inputs are
# held in registers.
_DEPTH, _DEPTH_OF_FLOAT32 = 64, 16
# One more than the number of rounds that are being loaded.
_STAGES = 4


def dense(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    gelu: bool = False,
    added: Residual | None = None,
) -> Tensor:
    """Multiply rows by the transposed ``weight``, with sums in float32.

    Args:
        x: [B, T, inputs], contiguous.
        weight: [outputs, inputs], contiguous, in the dtype of ``x``.
        bias: [outputs], in that dtype.
        gelu: apply the GELU without approximation (Hendrycks and Gimpel 2016) to the result.
        added: what the result is added to.

    Returns:
        [B, T, outputs], float32 with ``added``, else in the dtype of ``x``. The product, the GELU
        and the sum are each rounded to it, as separate operators would round them.
    """
    batch, steps, inputs = x.shape
    outputs = len(weight)
    dtype = x.dtype if added is None else torch.float32
    out = torch.empty(batch, steps, outputs, dtype=dtype, device=x.device)
    rows = batch * steps
    if not rows:
        return out
    given, scale, there = (out, x, out) if added is None else (added.rows, added.scale, added.there)
    depth = _DEPTH_OF_FLOAT32 if x.dtype is torch.float32 else _DEPTH
    grid = triton.cdiv(outputs, _TILE_OUTPUTS), triton.cdiv(rows, _TILE_ROWS)
    launcher(_dense, grid)(
        x,
        weight,
        x if bias is None else bias,
        given,
        scale,
        there,
        out,
        rows,
        steps,
        given.stride(0),
        there.stride(0),
        inputs,
        outputs,
        tile_rows=_TILE_ROWS,
        tile_outputs=_TILE_OUTPUTS,
        depth=depth,
        biased=bias is not None,
        gelu=gelu,
        added=added is not None,
        # Triton's interpreter multiplies the bits of bfloat16 numbers as if they were integers.
        widen=not x.is_cuda,
        num_warps=4,
        num_stages=_STAGES,
    )
    return out


@triton.jit(
    do_not_specialize=["rows", "steps", "given_stride", "there_stride"],
    do_not_specialize_on_alignment=["given", "there"],
)
def _dense(
    x: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    given: tl.tensor,
    scale: tl.tensor,
    there: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    steps: tl.tensor,
    given_stride: tl.tensor,
    there_stride: tl.tensor,
    inputs: tl.tensor,
    outputs: tl.tensor,
    tile_rows: tl.constexpr,
    tile_outputs: tl.constexpr,
    depth: tl.constexpr,
    biased: tl.constexpr,
    gelu: tl.constexpr,
    added: tl.constexpr,
    widen: tl.constexpr,
) -> None:
    column = tl.program_id(0) * tile_outputs + tl.arange(0, tile_outputs)
    row = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    sums = tl.zeros([tile_rows, tile_outputs], tl.float32)
    for first in range(0, inputs, depth):
        at = first + tl.arange(0, depth)
        inside = at < inputs
        mask = (row < rows)[:, None] & inside[None, :]
        part = tl.load(x + row[:, None] * inputs + at[None, :], mask=mask, other=0.0)
        mask = (column < outputs)[None, :] & inside[:, None]
        place = weight + column[None, :] * inputs + at[:, None]
        sums = dot(part, tl.load(place, mask=mask, other=0.0), sums, widen)
    if biased:
        sums += tl.load(bias + column, mask=column < outputs, other=0.0).to(tl.float32)[None, :]
    found = sums.to(x.dtype.element_ty).to(tl.float32)
    if gelu:
        found = _gelu(found)
    if added:
        batch, step = row // steps, row % steps
        place = given + (batch * given_stride + step * outputs)[:, None] + column[None, :]
        mask = (row < rows)[:, None] & (column < outputs)[None, :]
        factor = tl.load(scale + column, mask=column < outputs, other=0.0)
        counts = tl.load(there + batch * there_stride + step, mask=row < rows, other=0.0)
        found = tl.load(place, mask=mask, other=0.0) + found * factor[None, :] * counts[:, None]
    mask = (row < rows)[:, None] & (column < outputs)[None, :]
    place = out + row[:, None] * outputs + column[None, :]
    tl.store(place, found.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _gelu(x: tl.tensor) -> tl.tensor:
    """Return x Phi(x) to 5e-7, as the CPU kernels do.

    The upper tail of the normal distribution comes from Abramowitz and Stegun, 7.1.26. It has no
    branches, unlike the error function of CUDA's library.
    """
    size = tl.abs(x)
    t = 1.0 / (size * 0.23164189 + 1.0)  # 0.3275911 / sqrt(2)
    tail = t * 1.061405429 - 1.453152027
    tail = tail * t + 1.421413741
    tail = tail * t - 0.284496736
    tail = (tail * t + 0.254829592) * t * 0.5 * tl.exp(x * x * -0.5)
    return tl.maximum(x, 0.0) - size * tail
