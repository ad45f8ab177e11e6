"""Pools of keys and values for tests of attention."""

from __future__ import annotations

import torch
from torch import Tensor

from ChatTTS.model.kernels import int8


def in_int8(pool: Tensor) -> Tensor:
    """Return the pool's keys and values in eight bits. Where it has NaN, the scales are NaN."""
    found = torch.zeros(int8.block_shape(pool.shape), dtype=torch.int8, device=pool.device)
    numbers, scales = int8.split_scales(found)
    for part, taken in zip((numbers, scales), int8.quantize(pool), strict=True):
        part.copy_(taken)
    return found
