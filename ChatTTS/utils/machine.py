"""What this machine is, and how much of it this process may use: affinity and containers count."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from numbers import Integral
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import ConfigError, shown

# More than any machine has; the kernels count threads in 32 bits, and start them all.
_MOST_THREADS = 1024

# What matters for matrix products, as Linux calls it.
_FEATURES = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
    "asimd",
    "sve",
)


def cpu_model(root: Path = Path("/")) -> str:
    """The name of the CPU."""
    named = _cpu_info(root).get("model name")
    return named or platform.processor() or platform.machine() or "unknown"


def cpu_features(root: Path = Path("/")) -> list[str]:
    """Instruction sets that help here; empty where the system does not tell."""
    info = _cpu_info(root)
    flags = set((info.get("flags") or info.get("Features") or "").split())
    return [name for name in _FEATURES if name in flags]


def affinity() -> int:
    """Logical cores that this process may be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_limit(root: Path = Path("/")) -> float | None:
    """Cores' worth of time that a container leaves to this process; None without a limit."""
    return min(_quotas(root), default=None)


def usable_cores(root: Path = Path("/")) -> float:
    """Cores that this process can keep busy."""
    limit = cgroup_limit(root)
    return affinity() if limit is None else min(limit, affinity())


def checked_threads(given: Any) -> int:
    """A number of threads that can be started.

    Raises:
        ConfigError: it is no whole number, or beyond what makes sense.
    """
    is_whole = isinstance(given, Integral) and not isinstance(given, bool)
    if not is_whole or not 1 <= int(given) <= _MOST_THREADS:
        raise ConfigError(
            f"num_threads must be a whole number from 1 to {_MOST_THREADS}, not {shown(given)}"
        )
    return int(given)


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that could be taken now without swapping, within the container's limit."""
    limits = [*_free_memory(root), *_memory_limits(root)]
    return max(0, min(limits)) if limits else 1 << 30  # of a system that does not tell


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
    """What every limit leaves on the way from this process's control groups to their roots."""
    for group in _groups(root, "memory"):
        limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
        used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes")
        if limit and used:
            yield limit - used + _cached_files(group)


def _cached_files(group: Path) -> int:
    """Pages of files that nobody uses: they count as used and are given back."""
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


def _quotas(root: Path) -> Iterator[float]:
    """Every limit on the way from this process's control groups to their roots."""
    for group in _groups(root, "cpu"):
        quota = _quota(group)
        if quota is not None:
            yield quota


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """This process's control groups that limit something, from the inmost outwards."""
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
    """Cores by one group's own files, of either version."""
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
