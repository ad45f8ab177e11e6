"""What of the machine this process may use: limits of the scheduler and of containers count."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Cores that this process may compute on, by its affinity and its container's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    quota = _cpu_quota()
    return max(1, cores if quota is None else min(cores, int(quota)))


def available_memory() -> int:
    """Bytes that could be taken now without swapping, within the container's limit."""
    limits = [size for size in (_free_memory(), _container_memory()) if size is not None]
    return max(0, min(limits)) if limits else 1 << 30  # of a system that does not tell


def _cpu_quota() -> float | None:
    """Cores that the container's quota is worth, where there is one."""
    unified = _numbers(_CGROUPS / "cpu.max")
    if unified is not None:
        return unified[0] / unified[1] if len(unified) == 2 else None
    quota = _numbers(_CGROUPS / "cpu" / "cpu.cfs_quota_us")
    period = _numbers(_CGROUPS / "cpu" / "cpu.cfs_period_us")
    return quota[0] / period[0] if quota and period and quota[0] > 0 else None


def _free_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def _container_memory() -> int | None:
    """What the container's limit leaves; pages of files are given back and do not count."""
    limit, used = _numbers(_CGROUPS / "memory.max"), _numbers(_CGROUPS / "memory.current")
    if not limit or not used:
        return None
    files = 0
    try:
        for line in (_CGROUPS / "memory.stat").read_text(encoding="ascii").splitlines():
            if line.startswith("inactive_file "):
                files = int(line.split()[1])
    except (OSError, ValueError):
        pass
    return limit[0] - used[0] + files


def _numbers(file: Path) -> list[int] | None:
    """The numbers in a file of one line; none of them where it says ``max``."""
    try:
        return [int(word) for word in file.read_text(encoding="ascii").split() if word != "max"]
    except (OSError, ValueError):
        return None
