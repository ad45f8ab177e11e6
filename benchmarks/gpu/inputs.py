"""What kernels are given when they are held against their twins, and how far apart results are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .scale import Scale

# Of the norm of the difference by that of the expected: what rounding alone can make.
ALLOWED = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}


class Inputs:
    """Random tensors, made on the CPU, and what they are checked with.

    Args:
        dtype: of the kernels' operands.
    """

    def __init__(self, scale: Scale, dtype: str) -> None:
        self.scale, self.device = scale, torch.device(scale.device)
        self.dtype = getattr(torch, dtype)
        # Triton's interpreter cuts bfloat16 off instead of rounding it.
        self.allowed = ALLOWED[dtype] * (1 if self.device.type == "cuda" else 2)
        self.random = torch.Generator().manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """On the CPU."""
        return torch.randn(*shape, generator=self.random).to(dtype or self.dtype)

    def whole(self, most: int, *shape: int) -> Tensor:
        """Numbers below ``most``, int32 on the CPU."""
        return torch.randint(most, shape, generator=self.random, dtype=torch.int32)

    def on_both(self, kernel: Callable[..., Any], twin: Callable[..., Any], *given: Any) -> float:
        """The error of a kernel's result on the device; tensors are moved there."""
        expected = twin(*_copied(given, torch.device("cpu")))
        moved = _copied(given, self.device)
        spoil(self.device)
        return error(kernel(*moved), expected)


def error(found: Tensor, expected: Tensor) -> float:
    """The norm of the difference by that of the expected; infinite where a number is none."""
    ours, theirs = found.detach().cpu().double(), expected.double()
    if ours.shape != theirs.shape or not bool(ours.isfinite().all()):
        return float("inf")
    return float((ours - theirs).norm() / theirs.norm().clamp_min(1e-30))


def spoil(device: torch.device) -> None:
    """Fill memory that the next results may be given: what a kernel leaves out is no number."""
    sizes = [2**bits for bits in range(8, 24, 2)]
    held = [torch.full((size,), float("nan"), device=device) for size in sizes for _ in range(4)]
    del held


def _copied(given: tuple[Any, ...], device: torch.device) -> list[Any]:
    return [part.to(device, copy=True) if isinstance(part, Tensor) else part for part in given]
