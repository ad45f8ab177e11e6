"""How much memory this process has, by what the system says of it."""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_bytes() -> int:
    """In memory now; the peak where the system does not tell."""
    found = _status("VmRSS")
    return peak_bytes() if found is None else found


def peak_bytes() -> int:
    """The most that was in memory at once.

    Linux' own ``ru_maxrss`` would begin with what the parent process had when it made this one,
    so the field that begins anew comes first.
    """
    found = _status("VmHWM")
    if found is not None:
        return found
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int | None:
    """A field of the process's status file, in bytes."""
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None
