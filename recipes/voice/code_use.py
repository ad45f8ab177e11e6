"""How many of a codec's codes are in use: a loss that keeps them so, and a figure for the log."""

from __future__ import annotations

import torch
from torch import Tensor

# The wanted standard deviation of the values that are bounded and rounded to levels from -1 to 1.
# Values reach the outer levels, but few lie far beyond them, where there is no gradient.
SPREAD = 0.8


def unevenness(unbounded: Tensor) -> Tensor:
    """Return how far the values [B, T, n] before rounding are from mean 0 and the wanted spread.

    Without this loss, an early gradient that all frames share pushes them all beyond one outer
    level. They would stay there, and the codec would use only three codes.
    """
    mean, spread = unbounded.mean(dim=(0, 1)), unbounded.std(dim=(0, 1))
    return (mean.square() + (spread - SPREAD).square()).mean()


def perplexity(indices: Tensor, size: int) -> Tensor:
    """Return the perplexity of the indices: how many equally frequent codes would be as varied."""
    flat = indices.flatten().long()
    counts = torch.zeros(size, device=flat.device)
    counts.scatter_add_(0, flat, torch.ones_like(flat, dtype=counts.dtype))
    entropy: Tensor = torch.special.entr(counts / counts.sum()).sum()
    return entropy.exp()
