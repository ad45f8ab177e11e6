"""The processor time, threads and memory of a process, most with the processes that it started."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .soak.watch import descendants

_PROC = Path("/proc")


def processes(number: int) -> list[int]:
    """Return the numbers of a process and of those below it."""
    return [number, *descendants(number)]


def cpu_seconds(number: int) -> float:
    """Return the processor time of a process and of those below it that run now."""
    return sum(map(own_cpu_seconds, processes(number)))


def own_cpu_seconds(number: int) -> float:
    """Return the processor time of one process; 0 of one that has ended."""
    with suppress(OSError):
        stat = (_PROC / str(number) / "stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def megabytes(number: int) -> float:
    """Return the resident memory of a process alone."""
    pages = int((_PROC / str(number) / "statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def threads(number: int) -> int:
    """Return the number of threads of a process and of those below it."""
    found = 0
    for each in processes(number):
        with suppress(OSError):
            found += len(list((_PROC / str(each) / "task").iterdir()))
    return found
