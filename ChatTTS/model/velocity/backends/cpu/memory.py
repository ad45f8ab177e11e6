"""Large pieces of memory that kernels read all over."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress

import torch
from torch import Tensor

_LARGE = 64 << 20  # bytes; smaller pieces do not use huge pages


def private_memory(size: int) -> Tensor:
    """Return zeros, uint8 [size]; a forked child gets a copy instead of writing into the parent's.

    With small pages the kernels would wait for address translation, so large pieces have huge ones
    where the system gives them. Memory is taken when it is first written.
    """
    if sys.platform == "win32":
        memory = mmap.mmap(-1, size)
    else:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
    if size >= _LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # the system's choice
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)
