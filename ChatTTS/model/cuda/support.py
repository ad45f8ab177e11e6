"""Whether Triton kernels can run here, and on which device they are launched."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def why_no_kernels() -> str | None:
    """Why Triton kernels cannot run here, in words; ``None`` where they can."""
    if not torch.cuda.is_available():
        return "no CUDA device is there"
    if torch.version.hip is not None:
        return "the kernels are made for CUDA, and this torch is for ROCm"
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed (pip install triton)"
    if torch.cuda.get_device_capability() < (8, 0):
        return "the kernels need a GPU of compute capability 8.0 or newer"
    return None


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Launch on ``device`` meanwhile: Triton and graphs take the current one, not the tensors'."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
