"""The beginning of a ConvNeXt block: a convolution of each channel over time, and a LayerNorm.

Each program computes one row, so rows are independent of each other.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..torch_references import ChannelNorm
from .launching import launcher


def depthwise_norm(
    window: Tensor,
    taps: Tensor,
    bias: Tensor,
    norm: ChannelNorm,
    *,
    dilation: int,
    dtype: torch.dtype,
) -> Tensor:
    """Convolve each channel over time, then normalize each row over its channels.

    Args:
        window: float32 [B, (kernel - 1) * dilation + T, channels], contiguous.
        taps: float32 [kernel, channels], the weights of the convolution.
        bias: float32 [channels], of the convolution.
        norm: the LayerNorm (Ba et al. 2016) of the rows.
        dilation: rows from one tap to the next.
        dtype: of the result.

    Returns:
        [B, T, channels] in ``dtype``. Sums are computed in float32.
    """
    batch, length, channels = window.shape
    steps = length - (len(taps) - 1) * dilation
    out = torch.empty(batch, steps, channels, dtype=dtype, device=window.device)
    if out.numel():
        launcher(_depthwise_norm, (steps, batch))(
            window,
            taps,
            bias,
            norm.weight,
            norm.bias,
            out,
            length,
            norm.eps,
            channels,
            len(taps),
            dilation,
            triton.next_power_of_2(channels),
            num_warps=4,
        )
    return out


@triton.jit(do_not_specialize=["length"])
def _depthwise_norm(
    window: tl.tensor,
    taps: tl.tensor,
    bias: tl.tensor,
    norm_weight: tl.tensor,
    norm_bias: tl.tensor,
    out: tl.tensor,
    length: tl.tensor,
    eps: tl.tensor,
    channels: tl.constexpr,
    kernel: tl.constexpr,
    dilation: tl.constexpr,
    block: tl.constexpr,
) -> None:
    step, batch = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, block)
    inside = column < channels
    place = window + (batch * length + step).to(tl.int64) * channels + column
    sums = tl.zeros([block], tl.float32)
    for tap in tl.static_range(kernel):
        part = tl.load(place + tap * dilation * channels, mask=inside, other=0.0)
        sums += part * tl.load(taps + tap * channels + column, mask=inside, other=0.0)
    sums += tl.load(bias + column, mask=inside, other=0.0)
    centred = tl.where(inside, sums - tl.sum(sums, axis=0) / channels, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / channels + eps)
    gain = tl.load(norm_weight + column, mask=inside, other=0.0)
    found = centred * scale * gain + tl.load(norm_bias + column, mask=inside, other=0.0)
    row = (batch * tl.num_programs(0) + step).to(tl.int64)
    tl.store(out + row * channels + column, found.to(out.dtype.element_ty), mask=inside)
