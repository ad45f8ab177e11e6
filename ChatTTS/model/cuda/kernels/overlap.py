"""Launches that begin while the one before them ends (CUDA's programmatic dependent launch).

In a step of few rows a kernel takes a few microseconds, and its beginning is a good part of them:
programs are placed, addresses computed, weights are on their way. None of that needs what the
launch before gives. So every kernel here lets the next one begin at once, and waits until all of
the launch before is done before it writes anything, or reads what that launch may have written.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime import driver

# The first two numbers of Triton's version.
TRITON = tuple(map(int, triton.__version__.split(".")[:2]))

# The first compute capability that has it, and the first Triton: 3.3 lacks the two instructions,
# and those of 3.4 do not compile.
_FIRST = 90
_FIRST_TRITON = (3, 5)

if TRITON >= _FIRST_TRITON:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


def overlaps(x: Tensor) -> bool:
    """Whether launches can overlap on the device of ``x``. A kernel and its launch must
    both be told."""
    return TRITON >= _FIRST_TRITON and capability(x) >= _FIRST


def capability(x: Tensor) -> int:
    """Compute capability of the device of ``x``, 90 for 9.0; 0 where kernels are interpreted."""
    return _capability(x.device) if x.is_cuda else 0


def launch_options(overlap: bool) -> dict[str, Any]:
    """What a launch is told beside its arguments."""
    return {"launch_pdl": True} if overlap else {}


@cache
def _capability(device: torch.device) -> int:
    # Launches are made for the current device, which is the tensors' own.
    return int(driver.active.get_current_target().arch)


@triton.jit
def follow() -> None:
    """Let the next launch begin, and wait for the one before."""
    gdc_launch_dependents()
    gdc_wait()
