"""OpenMP's threads, which every thread that computes with torch gets for itself.

Each such thread keeps its team of threads, as many as there are cores. GNU's library counts them
all. Once there are more than cores, a team that has nothing to do sleeps at once instead of waiting
actively, and waking it takes ten times as long as a small product. So a thread that computes now
and then returns its team, and that of the engine wakes quickly.

A forked child has the forking thread without its team. Whatever asks for that team, be it to
compute or to end it, waits for ever. So such a child computes torch's operators on one thread.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

logger = logging.getLogger(__name__)

_MAPS = Path("/proc/self/maps")
_SOFT = 1  # omp_pause_soft: what was set stays set
# Whether this process was forked from one that computed.
_IS_LEFT_ALONE = threading.Event()


def set_threads(count: int) -> None:
    """Have torch's operators compute on ``count`` threads, or on one in a child without teams."""
    if _IS_LEFT_ALONE.is_set():
        if count > 1:
            logger.info(
                "torch's operators keep to one thread, since this process was forked from one that "
                "had computed; start it with multiprocessing's method spawn for %d threads",
                count,
            )
        return
    torch.set_num_threads(count)


def give_up_teams() -> None:
    """Compute on one thread from now on: called in a child that was forked after computing."""
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    _IS_LEFT_ALONE.set()


def return_threads() -> None:
    """End the team of the calling thread; the next operation that needs one makes it again.

    Other libraries than GNU's, as torch uses them on Windows and macOS, need nothing.
    """
    if _IS_LEFT_ALONE.is_set():
        return
    for library in _libraries():
        library.omp_pause_resource_all(_SOFT)


@contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Let torch's operators in this thread use at most so many threads within the block.

    Other threads of the process are not affected, and keep their setting, where torch uses GNU's
    OpenMP. Elsewhere the setting is the process's until the block ends.

    Args:
        threads: ``None`` changes nothing.
    """
    # A thread takes the process's setting when it first asks, which must not be within the block.
    usual = torch.get_num_threads()
    if threads is None or usual <= threads:
        yield
        return
    with ExitStack() as restores:
        if libraries := _libraries():
            for library in libraries:
                restores.callback(library.omp_set_num_threads, usual)
                library.omp_set_num_threads(threads)
            if (limit := _mkl_limit()) is not None:
                restores.callback(limit, limit(threads))
        else:
            restores.callback(torch.set_num_threads, usual)
            torch.set_num_threads(threads)
        yield


@functools.cache
def _mkl_limit() -> Any:
    """Return MKL's function that sets the calling thread's number, and returns the earlier one."""
    for path in _mapped("/libtorch_cpu.", "/libmkl_rt."):
        with suppress(OSError, AttributeError):
            return ctypes.CDLL(path).MKL_Set_Num_Threads_Local
    return None


@functools.cache
def _libraries() -> tuple[Any, ...]:
    """Return GNU's OpenMP libraries of this process; torch must have been imported before."""
    found = []
    for path in _mapped("/libgomp"):
        with suppress(OSError):
            library = ctypes.CDLL(path)
            if hasattr(library, "omp_pause_resource_all"):
                found.append(library)
    return tuple(found)


def _mapped(*names: str) -> list[str]:
    """Return the files in this process's memory that have one of ``names`` in their path."""
    if sys.platform != "linux":
        return []
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return sorted(
        {line.split(maxsplit=5)[5] for line in lines if any(name in line for name in names)}
    )
