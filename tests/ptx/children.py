"""Runs tests in a child process whose kernels are compiled and emulated."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from importlib.metadata import version

import pytest

from ..support.places import ROOT

# The parser knows what this release of Triton writes, and newer ones until they prove otherwise.
_LEAST_TRITON = (3, 7)


def _why_not() -> str | None:
    """Return why nothing can be emulated here."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "Triton's compiler for GPUs needs Linux on x86-64"
    if importlib.util.find_spec("triton") is None:
        return "needs Triton"
    if tuple(map(int, version("triton").split(".")[:2])) < _LEAST_TRITON:
        return "the emulator knows what Triton 3.7 writes"
    return None


needs_emulator = pytest.mark.skipif(_why_not() is not None, reason=str(_why_not()))


def run_child(module: str, *arguments: str, seconds: float = 2700) -> str:
    """Run a module with compiled kernels; return what it prints.

    Raises:
        AssertionError: it fails; the message has all that it printed.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    return done.stdout


def run_tests(capability: int, *arguments: str, races: bool = True, share: str = "0/1") -> str:
    """Run pytest with ``arguments``, for a GPU of ``capability`` such as 90; return its output.

    Args:
        share: which cases of each test are run: ``1/2`` is every second one from number 1 on.
    """
    watched = "races" if races else "no-races"
    return run_child("tests.ptx.child", str(capability), watched, share, "-q", *arguments)
