"""Launches that begin while the previous one ends (CUDA's programmatic dependent launch).

In a step of few rows a kernel takes a few microseconds, and much of that time is its start:
programs are placed, addresses are computed, weights are fetched. None of that needs the results of
the previous launch. So every kernel here lets the next one begin at once. A kernel waits until the
previous launch is done before it writes anything, or reads what a launch that runs may write.

More launches than the previous one may run then. That one begins while the one before it runs, and
so on, back to the last launch that does not overlap, whose end none of them has waited for. A
launch that waits has waited for all of them. So a kernel may read before its wait only what none of
these launches writes. The kernels name these inputs as read early. Between the end of a decode
step, which writes the positions, and the first attention of the next step, there is a launch that
does not overlap: the embedding.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime import driver

# Triton's version: major and minor number.
TRITON = tuple(map(int, triton.__version__.split(".")[:2]))

OVERLAP_VARIABLE = "CHATTTS_OVERLAP_LAUNCHES"
# The first compute capability and the first Triton with such launches. Triton 3.3 lacks the two
# instructions, and those of 3.4 do not compile.
_FIRST = 90
_FIRST_TRITON = (3, 5)

if TRITON >= _FIRST_TRITON:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


def overlaps(x: Tensor) -> bool:
    """Return whether launches overlap on the device of ``x``.

    Both the kernel and its launch need the answer. ``CHATTTS_OVERLAP_LAUNCHES=0`` in the
    environment turns it off.
    """
    wanted = os.environ.get(OVERLAP_VARIABLE) != "0"
    return wanted and TRITON >= _FIRST_TRITON and capability(x) >= _FIRST


def capability(x: Tensor) -> int:
    """Return the compute capability of the device of ``x``, 90 for 9.0; 0 in the interpreter."""
    return _capability(x.device) if x.is_cuda else 0


def launch_options(overlap: bool) -> dict[str, Any]:
    """Return the options of a launch, beside the kernel's arguments."""
    return {"launch_pdl": True} if overlap else {}


@cache
def _capability(device: torch.device) -> int:
    # Kernels run on the current device, which is the device of the tensors.
    return int(driver.active.get_current_target().arch)


@triton.jit
def follow() -> None:
    """Let the next launch begin, and wait for the previous one to end."""
    gdc_launch_dependents()
    gdc_wait()


@triton.jit
def let_begin() -> None:
    """Let the next launch begin."""
    gdc_launch_dependents()
