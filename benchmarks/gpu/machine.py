"""The machine that the GPU benchmark runs on, and whether the kernels can run there."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version

import torch

import ChatTTS
from ChatTTS.model.cuda.support import why_no_kernels

from ..common.report import machine
from .scale import Task
from .timing import copy_rate

_PACKAGES = ("triton", "transformers", "safetensors", "numpy")


def measure(task: Task) -> None:
    """Record the computer, the device, versions, and the rate of a large copy.

    Raises:
        RuntimeError: the kernels cannot run; the message says why.
    """
    device = task.device
    name = "no GPU"
    if device.type == "cuda":
        task.record.put(driver=_driver())
    if device.type == "cuda" and torch.cuda.is_available():
        about = torch.cuda.get_device_properties(device)
        name = about.name
        task.record.put(
            memory_gb=about.total_memory / 1e9,
            free_gb=torch.cuda.mem_get_info(device)[0] / 1e9,
            multiprocessors=about.multi_processor_count,
            capability=f"{about.major}.{about.minor}",
        )
    task.record.put(
        device=name,
        machine=machine() | {"usable cores": len(os.sched_getaffinity(0))},
        versions={
            "package": f"chattts-velocity {ChatTTS.__version__}",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": str(torch.version.cuda),
            **_versions(),
        },
    )
    if device.type == "cuda" and (reason := why_no_kernels(device)) is not None:
        if torch.version.cuda and not torch.cuda.is_available():
            reason += f"; this torch needs a driver for CUDA {torch.version.cuda} or newer"
        raise RuntimeError(f"the kernels cannot run: {reason}")
    task.record.put(copy_gb_s=copy_rate(task.scale) / 1e9)


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _driver() -> str:
    """Return the version of the driver, as ``nvidia-smi`` reports it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
