"""The test whether Triton kernels can run here, and the device on which they are launched."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ...errors import ConfigError

# An older one fails in an assertion of its compiler, which no handler can catch.
_MIN_TRITON = (3, 3)
# The tiles of the attention kernels are made for heads of this width at most.
_MAX_HEAD_DIM = 128


def why_no_kernels(device: torch.device, head_dim: int = 0) -> str | None:
    """Return why Triton kernels cannot run on a CUDA device; ``None`` where they can.

    Args:
        head_dim: of the attention heads, if a Llama is to run.
    """
    if head_dim > _MAX_HEAD_DIM:
        return f"the kernels are made for heads of {_MAX_HEAD_DIM} numbers at most, not {head_dim}"
    if not torch.cuda.is_available():
        return "no CUDA device is there"
    if torch.version.hip is not None:
        return "the kernels are made for CUDA, and this torch is for ROCm"
    if importlib.util.find_spec("triton") is None:
        name = "triton-windows" if sys.platform == "win32" else "triton"
        return f"triton is not installed (pip install {name})"
    found = _triton_version()
    if found < _MIN_TRITON:
        return (
            f"triton {'.'.join(map(str, found))} aborts the process while it compiles them: "
            f"install torch 2.7 or newer, which brings triton {'.'.join(map(str, _MIN_TRITON))}"
        )
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "the kernels need a GPU of compute capability 8.0 or newer"
    return _why_none_is_launched(device)


def _triton_version() -> tuple[int, ...]:
    """Return the first two numbers of the version; Triton itself is not imported.

    Some builds of torch bring it as a distribution of another name.
    """
    for distribution in importlib.metadata.packages_distributions().get("triton", ()):
        return tuple(map(int, re.findall(r"\d+", importlib.metadata.version(distribution))[:2]))
    return _MIN_TRITON


@cache
def _why_none_is_launched(device: torch.device) -> str | None:
    """Return why the simplest kernel cannot be compiled and launched; ``None`` if it can."""
    try:
        from ..kernels.cuda.norm import rms_norm

        with on_device(device):
            rms_norm(torch.ones(1, 16, device=device), torch.ones(16, device=device), 1e-6)
            # Not the whole device: that would break a capture that another thread makes.
            torch.cuda.current_stream(device).synchronize()
    except Exception as error:  # a missing compiler or a broken installation may raise anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return f"Triton cannot launch a kernel ({reason}); {_what_triton_lacks()}"
    return None


def _what_triton_lacks() -> str:
    """Return what to install so that Triton can compile its launchers, which are in C."""
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        return (
            f"it needs {header}, which a package such as python3-dev has, or another build of "
            "Python"
        )
    if sys.platform == "win32":
        return "it needs a C compiler: triton-windows brings one, so install its latest release"
    return "it needs a C compiler such as gcc"


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Make ``device`` the current one: Triton and graphs use that, not the tensors' device."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def must_fit(what: str, device: torch.device, advice: str) -> Iterator[None]:
    """Turn errors about too little memory into one that has the numbers.

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
