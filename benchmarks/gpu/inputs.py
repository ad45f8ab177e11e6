"""Inputs for the comparison of kernels with their torch references, and the error of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .scale import Scale

# Largest relative errors (norm of the difference by norm of the expected) due to rounding.
ALLOWED = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}


class Inputs:
    """Random tensors on the CPU, and the device and error bound that they are checked with.

    Args:
        dtype: dtype of the kernels' operands.
    """

    def __init__(self, scale: Scale, dtype: str) -> None:
        self.scale, self.device = scale, torch.device(scale.device)
        self.dtype = getattr(torch, dtype)
        # Triton's interpreter truncates to bfloat16 instead of rounding.
        self.allowed = ALLOWED[dtype] * (1 if self.device.type == "cuda" else 2)
        self.random = torch.Generator().manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return normally distributed numbers on the CPU."""
        return torch.randn(*shape, generator=self.random).to(dtype or self.dtype)

    def whole(self, most: int, *shape: int) -> Tensor:
        """Return integers from 0 to ``most - 1``, int32 on the CPU."""
        return torch.randint(most, shape, generator=self.random, dtype=torch.int32)

    def on_both(
        self, kernel: Callable[..., Any], reference: Callable[..., Any], *given: Any
    ) -> float:
        """Return the error of a kernel's result; it gets copies of ``given`` on the device."""
        expected = reference(*_copied(given, torch.device("cpu")))
        moved = _copied(given, self.device)
        spoil(self.device)
        return error(kernel(*moved), expected)


def error(found: Tensor, expected: Tensor) -> float:
    """Return the norm of the difference by that of ``expected``.

    It is infinite if the shapes differ or ``found`` is not finite.
    """
    ours, theirs = found.detach().cpu().double(), expected.double()
    if ours.shape != theirs.shape or not bool(ours.isfinite().all()):
        return float("inf")
    return float((ours - theirs).norm() / theirs.norm().clamp_min(1e-30))


def spoil(device: torch.device) -> None:
    """Fill free memory with NaN, so that elements that a kernel does not write are noticed."""
    sizes = [2**bits for bits in range(8, 24, 2)]
    held = [torch.full((size,), float("nan"), device=device) for size in sizes for _ in range(4)]
    del held


def _copied(given: tuple[Any, ...], device: torch.device) -> list[Any]:
    return [part.to(device, copy=True) if isinstance(part, Tensor) else part for part in given]
