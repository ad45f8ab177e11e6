"""Numbers in eight bits, int8: keys and values as the blocks of a KV cache hold them, and weights.

Plain torch. A key or value of a head is whole numbers of -127 to 127 and one float32 scale. A head
of a block holds the numbers of its positions and then their scales, so whatever moves a block moves
both. A pool of such blocks has the dtype int8, and its last dimension counts the bytes of a
position: those of its numbers and four of its scale. A matrix has a scale for each output.
"""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST = 127
SCALE_BYTES = 4
# The scales of a head then begin at a multiple of their own size, whatever the block size.
HEAD_MULTIPLE = 4


def block_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a block in eight bits, of which ``shape`` has the numbers."""
    return (*shape[:-1], shape[-1] + SCALE_BYTES)


def head_sizes(pool: Tensor) -> tuple[int, int, int]:
    """Return the heads of keys, the block size and the head size of a pool of any dtype."""
    heads, positions, size = pool.shape[-3:]
    return heads, positions, size - SCALE_BYTES * (pool.dtype is torch.int8)


def quantize(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise keys or values [..., head size] to int8, with scales float32 [...].

    A scale is NaN where a number is not finite, so that damage is heard.
    """
    wide = x.float()
    peak = wide.abs().amax(dim=-1)
    is_sound = peak.isfinite()
    # Numbers that are next to nothing are nothing: their quotients would leave the range of floats.
    is_something = is_sound & (peak > 1e-30)
    factor = torch.where(is_something, LARGEST / peak, 0.0)
    scale = torch.where(is_something, peak / LARGEST, 0.0).masked_fill(~is_sound, torch.nan)
    return (wide * factor.unsqueeze(-1)).nan_to_num(0.0).round().to(torch.int8), scale


def quantize_weights(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise a matrix [outputs, inputs] to int8, with scales float32 [outputs].

    They are those of the CPU kernels; all weights are finite.
    """
    wide = weight.float()
    # A smaller scale would be rounded, and quotients would leave the range.
    scales = (wide.abs().amax(dim=1) / LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
    return (wide / scales.unsqueeze(1)).round().to(torch.int8), scales


def split_scales(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return views of the numbers [..., block size, head size] and scales [..., block size]."""
    _, positions, size = head_sizes(blocks)
    whole = blocks.flatten(-2)
    numbers, scales = whole[..., : positions * size], whole[..., positions * size :]
    return numbers.unflatten(-1, (positions, size)), scales.view(torch.float32)


def dequantize(blocks: Tensor) -> Tensor:
    """Return the keys and values of blocks of any dtype as float32, [..., positions, head size]."""
    if blocks.dtype is not torch.int8:
        return blocks.float()
    numbers, scales = split_scales(blocks)
    return numbers * scales.unsqueeze(-1)
