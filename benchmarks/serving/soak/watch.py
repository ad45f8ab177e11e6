"""Resources of the processes of this machine, as Linux tells them."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_STATES = {
    1: "established",
    2: "syn sent",
    3: "syn received",
    4: "fin wait 1",
    5: "fin wait 2",
    6: "time wait",
    7: "close",
    8: "close wait",
    9: "last ack",
    10: "listen",
    11: "closing",
}


@dataclass(frozen=True)
class Holding:
    """The resources of a process at a moment; memory is in megabytes.

    Attributes:
        rss: resident memory.
        pss: of it, shared pages divided by the processes that share them.
        uss: of it, pages of this process alone.
        files: open files and sockets.
        threads: of the process.
        sockets: of TCP, by state.
    """

    rss: float
    pss: float
    uss: float
    files: int
    threads: int
    sockets: Mapping[str, int] = field(default_factory=dict)


def holding(pid: int) -> Holding | None:
    """Return what a process holds; ``None`` if it has ended."""
    folder = _PROC / str(pid)
    try:
        sizes = _sizes(folder / "smaps_rollup")
        links = []
        for file in (folder / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since the folder was listed
                links.append(os.readlink(file))
        threads = len(list((folder / "task").iterdir()))
        sockets = _sockets(folder, set(links))
    except OSError:
        return None
    return Holding(
        rss=sizes["Rss"],
        pss=sizes["Pss"],
        uss=sizes["Private_Clean"] + sizes["Private_Dirty"],
        files=len(links),
        threads=threads,
        sockets=sockets,
    )


def _sizes(file: Path) -> dict[str, float]:
    lines = (line.split() for line in file.read_text(encoding="ascii").splitlines()[1:])
    return {words[0].rstrip(":"): int(words[1]) * 1024 / 1e6 for words in lines}


def _sockets(folder: Path, links: set[str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for table in ("tcp", "tcp6"):
        lines = (folder / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        for words in map(str.split, lines):
            if f"socket:[{words[9]}]" in links:
                counts[_STATES.get(int(words[3], 16), words[3])] += 1
    return dict(counts)


def descendants(pid: int) -> dict[int, str]:
    """Return the processes below a process that have not ended, with their command lines."""
    parents: dict[int, int] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                fields = stat.rpartition(")")[2].split()
                if fields[0] != "Z":
                    parents[int(folder.name)] = int(fields[1])
    found: dict[int, str] = {}
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        for child in level:
            with contextlib.suppress(OSError):
                line = (_PROC / str(child) / "cmdline").read_bytes()
                found[child] = line.replace(b"\0", b" ").decode(errors="replace")
    return found


def is_there(pid: int) -> bool:
    """Return whether a process runs; one that has ended and is not waited for does not."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def files_in(folder: Path) -> list[str]:
    """Return the names of all files below a folder, for a report of what was left."""
    return sorted(
        str(Path(where, name).relative_to(folder))
        for where, _, names in os.walk(folder)
        for name in names
    )
