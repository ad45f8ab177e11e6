"""RMSNorm (Zhang and Sennrich 2019) as a kernel of its own; ``products.py`` also fuses it.

Each program computes one row, so rows are independent of each other.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .dependent_launch import follow, launch_options, overlaps
from .launching import launcher


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Normalize every row.

    Args:
        x: [rows, hidden], contiguous, of any float dtype.
        weight: [hidden], in the dtype of ``x``.
        eps: added to the mean of the squares.

    Returns:
        [rows, hidden] in the dtype of ``x``. Sums are computed in float32. The scaled row is
        rounded to that dtype before it is multiplied by ``weight``.
    """
    out = torch.empty_like(x)
    rows, hidden = x.shape
    if rows:
        block = triton.next_power_of_2(hidden)
        overlap = overlaps(x)
        options = launch_options(overlap)
        launcher(_rms_norm, (rows,))(
            x, weight, out, eps, hidden, block, overlap, num_warps=4, **options
        )
    return out


@triton.jit
def _rms_norm(
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    hidden: tl.constexpr,
    block: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    if overlap:
        follow()
    columns = tl.arange(0, block)
    inside = columns < hidden
    places = tl.program_id(0).to(tl.int64) * hidden + columns
    wide = tl.load(x + places, mask=inside, other=0.0).to(tl.float32)
    gain = tl.load(weight + columns, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / hidden + eps)
    # The product of two 16-bit floats is exact in float32, so this rounds as a 16-bit product does.
    found = (wide * scale).to(gain.dtype).to(tl.float32) * gain.to(tl.float32)
    tl.store(out + places, found.to(gain.dtype), mask=inside)
