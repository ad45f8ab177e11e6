"""Whether Triton kernels can run here, and on which device they are launched."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import torch

from ...errors import ConfigError


def why_no_kernels(device: torch.device) -> str | None:
    """Why Triton kernels cannot run on a CUDA device, in words; ``None`` where they can."""
    if not torch.cuda.is_available():
        return "no CUDA device is there"
    if torch.version.hip is not None:
        return "the kernels are made for CUDA, and this torch is for ROCm"
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed (pip install triton)"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "the kernels need a GPU of compute capability 8.0 or newer"
    return _why_none_is_launched(device)


@cache
def _why_none_is_launched(device: torch.device) -> str | None:
    """Why the simplest kernel cannot be compiled and launched; ``None`` if it can."""
    try:
        from .kernels.norm import rms_norm

        with on_device(device):
            rms_norm(torch.ones(1, 16, device=device), torch.ones(16, device=device), 1e-6)
            torch.cuda.synchronize(device)
    except Exception as error:  # whatever a missing compiler or a broken installation raises
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return f"Triton cannot launch a kernel ({reason}); it needs a C compiler such as gcc"
    return None


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Launch on ``device`` meanwhile: Triton and graphs take the current one, not the tensors'."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def must_fit(what: str, device: torch.device, advice: str) -> Iterator[None]:
    """Say how much memory there is where it was too little.

    Raises:
        ConfigError: ``what`` does not fit on ``device``; ``advice`` says what to do.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        free, total = (size >> 20 for size in torch.cuda.mem_get_info(device))
        raise ConfigError(
            f"{what} does not fit on {device}, which has {free} MB free of {total} MB: {advice}"
        ) from error
