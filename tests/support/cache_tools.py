"""Pools of keys and values for tests of attention."""

from __future__ import annotations

import torch
from torch import Tensor

from ChatTTS.model.kernels import eight_bits


def in_eight_bits(pool: Tensor) -> Tensor:
    """Return the pool's keys and values in eight bits. Where it has NaN, the scales are NaN."""
    found = torch.zeros(eight_bits.block_shape(pool.shape), dtype=torch.int8, device=pool.device)
    numbers, scales = eight_bits.parts(found)
    for part, taken in zip((numbers, scales), eight_bits.rounded(pool), strict=True):
        part.copy_(taken)
    return found
