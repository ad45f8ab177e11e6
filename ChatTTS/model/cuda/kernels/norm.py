"""RMSNorm (Zhang and Sennrich 2019), alone and with the addition that goes before it.

A program has a row, so no row sees another.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Norm of every row.

    Args:
        x: [rows, hidden], contiguous, of any float dtype.
        weight: [hidden], of the same.
        eps: added to the mean of the squares.

    Returns:
        [rows, hidden] in the dtype of ``x``. Sums are made in float32, and what they scale is
        rounded before ``weight`` multiplies it.
    """
    out = torch.empty_like(x)
    rows, hidden = x.shape
    if rows:
        block = triton.next_power_of_2(hidden)
        _rms_norm[(rows,)](x, weight, out, eps, hidden, block, num_warps=4)
    return out


def add_rms_norm(x: Tensor, delta: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Add ``delta`` to ``x`` in place, and give the norm of the sum.

    Args:
        x: [rows, hidden], contiguous; the sum is rounded to its dtype.
        delta: the same shape, contiguous, of any float dtype.
        weight, eps: see :func:`rms_norm`.

    Returns:
        [rows, hidden] in the dtype of ``x``.
    """
    out = torch.empty_like(x)
    rows, hidden = x.shape
    if rows:
        block = triton.next_power_of_2(hidden)
        _add_rms_norm[(rows,)](x, delta, weight, out, eps, hidden, block, num_warps=4)
    return out


def rms_norm_torch(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Twin of :func:`rms_norm`."""
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (wide * scale).to(x.dtype)


def add_rms_norm_torch(x: Tensor, delta: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Twin of :func:`add_rms_norm`."""
    x.copy_(x.float() + delta.float())
    return rms_norm_torch(x, weight, eps)


@triton.jit
def _rms_norm(
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    hidden: tl.constexpr,
    block: tl.constexpr,
) -> None:
    columns = tl.arange(0, block)
    inside = columns < hidden
    places = tl.program_id(0).to(tl.int64) * hidden + columns
    wide = tl.load(x + places, mask=inside, other=0.0).to(tl.float32)
    gain = tl.load(weight + columns, mask=inside, other=0.0)
    tl.store(out + places, _scaled(wide, gain, eps, hidden), mask=inside)


@triton.jit
def _add_rms_norm(
    x: tl.tensor,
    delta: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    hidden: tl.constexpr,
    block: tl.constexpr,
) -> None:
    columns = tl.arange(0, block)
    inside = columns < hidden
    places = tl.program_id(0).to(tl.int64) * hidden + columns
    added = tl.load(delta + places, mask=inside, other=0.0).to(tl.float32)
    total = tl.load(x + places, mask=inside, other=0.0).to(tl.float32) + added
    rounded = total.to(x.dtype.element_ty)
    tl.store(x + places, rounded, mask=inside)
    gain = tl.load(weight + columns, mask=inside, other=0.0)
    tl.store(out + places, _scaled(rounded.to(tl.float32), gain, eps, hidden), mask=inside)


@triton.jit
def _scaled(wide: tl.tensor, gain: tl.tensor, eps: tl.tensor, hidden: tl.constexpr) -> tl.tensor:
    """The norm of a row in float32, in the dtype of ``gain``."""
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / hidden + eps)
    # The product of two numbers of 16 bits is exact in float32, so this rounds as they would.
    return ((wide * scale).to(gain.dtype).to(tl.float32) * gain.to(tl.float32)).to(gain.dtype)
