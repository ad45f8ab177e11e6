"""The memory of this process, as the operating system reports it."""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_bytes() -> int:
    """Return the resident memory in bytes, or the peak if the system reports only that."""
    found = _status("VmRSS")
    return peak_bytes() if found is None else found


def peak_bytes() -> int:
    """Return the peak of the resident memory in bytes.

    On Linux ``ru_maxrss`` starts with the memory of the parent process, but ``VmHWM`` does not. So
    ``VmHWM`` is used if there is one.
    """
    found = _status("VmHWM")
    if found is not None:
        return found
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int | None:
    """Return a field of the process's status file in bytes, or ``None`` if it is missing."""
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None
