"""What this machine's CPU is, and how much of it this process may use."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

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
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    mount = root / "sys" / "fs" / "cgroup"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        # Version 1 mounts each set of controllers by its name.
        top = mount / controllers if controllers else mount
        inner = PurePosixPath(path.lstrip("/"))
        for group in (inner, *inner.parents):
            quota = _quota(top / group)
            if quota is not None:
                yield quota


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
