"""The machine's CPU, and the cores and memory that this process may use.

The limits of affinity and of containers count.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from numbers import Integral
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import ConfigError, shown

# More than any machine has. The kernels count threads in 32 bits, and start all of them.
_MOST_THREADS = 1024

# Features that matrix products use, by their names on Linux.
_FEATURES = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
    "asimd",
    "asimddp",
    "bf16",
    "i8mm",
    "sve",
)


def cpu_model(root: Path = Path("/")) -> str:
    """Return the name of the CPU."""
    named = _cpu_info(root).get("model name")
    return named or platform.processor() or platform.machine() or "unknown"


def cpu_features(root: Path = Path("/")) -> list[str]:
    """Return the useful instruction sets; none where the system does not list them."""
    info = _cpu_info(root)
    flags = set((info.get("flags") or info.get("Features") or "").split())
    return [name for name in _FEATURES if name in flags]


def affinity() -> int:
    """Return the number of logical cores that this process may be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_limit(root: Path = Path("/")) -> float | None:
    """Return the container's limit of CPU time, in cores; None without a limit."""
    quotas = map(_quota, _groups(root, "cpu"))
    return min((quota for quota in quotas if quota is not None), default=None)


def usable_cores(root: Path = Path("/")) -> float:
    """Return how many cores this process can keep busy."""
    limit = cgroup_limit(root)
    return affinity() if limit is None else min(limit, affinity())


def checked_threads(given: Any) -> int:
    """Return ``given`` as a number of threads.

    Raises:
        ConfigError: it is no whole number, or out of range.
    """
    is_whole = isinstance(given, Integral) and not isinstance(given, bool)
    if not is_whole or not 1 <= int(given) <= _MOST_THREADS:
        raise ConfigError(
            f"num_threads must be a whole number from 1 to {_MOST_THREADS}, not {shown(given)}"
        )
    return int(given)


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes that are free without swapping, within the container's limit."""
    limits = [*_free_memory(root), *_memory_limits(root)]
    return max(0, min(limits)) if limits else 1 << 30  # for a system that does not tell


def _free_memory(root: Path) -> Iterator[int]:
    try:
        for line in (root / "proc" / "meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024
                return
    except (OSError, ValueError):
        pass
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _memory_limits(root: Path) -> Iterator[int]:
    """Yield the free bytes of each control group, from this process's own to the roots."""
    for group in _groups(root, "memory"):
        limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
        used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes")
        if limit and used:
            yield limit - used + _cached_files(group)


def _cached_files(group: Path) -> int:
    """Return the bytes of inactive file pages, which count as used but can be freed."""
    try:
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    except (OSError, ValueError, StopIteration):
        return 0


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or "max"
        return None


def _cpu_info(root: Path) -> dict[str, str]:
    try:
        text = (root / "proc" / "cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    first = text.partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield this process's control groups of a controller, from the innermost outwards."""
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    mount = root / "sys" / "fs" / "cgroup"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        # Version 1 mounts each set of controllers by its name.
        top = mount / controllers if controllers else mount
        inner = PurePosixPath(path.lstrip("/"))
        for group in (inner, *inner.parents):
            yield top / group


def _quota(group: Path) -> float | None:
    """Return the limit of one group, in cores, from the files of either cgroup version."""
    try:
        if (group / "cpu.max").is_file():
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (group / "cpu.cfs_period_us").read_text(encoding="ascii")
        cores = int(quota) / int(period)
    except (OSError, ValueError):  # no such group, or "max"
        return None
    return cores if cores > 0 else None
