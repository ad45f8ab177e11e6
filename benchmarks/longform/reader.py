"""Run ``chattts read`` as a process: watch its memory, and kill it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Seconds between looks at a process.
_EVERY = 0.2
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Watched:
    """The end and the costs of a process.

    Attributes:
        status: of its exit; negative for a signal.
        seconds: that it ran.
        cpu_seconds: that its threads computed, all together.
        peak: of its resident memory, in bytes.
        memory: seconds and resident bytes, at each look.
        spoken: seconds until every line was kept.
    """

    status: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak: int = 0
    memory: list[tuple[float, int]] = field(default_factory=list)
    spoken: float = 0.0

    def median_bytes(self, first: float, last: float) -> int:
        """Return the median of the resident memory between two moments, in seconds."""
        values = sorted(size for second, size in self.memory if first <= second <= last)
        return values[len(values) // 2] if values else 0


def read_command(*arguments: str | Path) -> list[str]:
    """Return the command ``chattts read`` of this checkout, with the bundled voice."""
    return [sys.executable, "-m", "ChatTTS", "read", *map(str, arguments), "--model", "bundled"]


def watch(
    command: Sequence[str],
    folder: Path,
    *,
    parts: Path | None = None,
    lines: int = 0,
    kill_when: Callable[[int, float], bool] | None = None,
) -> Watched:
    """Run a command in a folder to its end, or kill it with SIGKILL.

    Args:
        parts: the folder of the spoken lines.
        lines: how many there will be.
        kill_when: whether to kill it now, by the number of kept lines and the seconds since all of
            them are kept.
    """
    seen = Watched()
    with (folder / "log.txt").open("ab") as log:
        start = time.monotonic()
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
            stdout=log,
            stderr=log,
        )
        ended = False
        try:
            while not ended:
                seen.seconds = time.monotonic() - start
                resident, peak = _resident(child.pid)
                seen.peak = max(seen.peak, peak)
                if resident:
                    seen.memory.append((seen.seconds, resident))
                kept = 0 if parts is None else kept_lines(parts)
                if lines and kept >= lines and not seen.spoken:
                    seen.spoken = seen.seconds
                after = seen.seconds - seen.spoken if seen.spoken else 0.0
                if kill_when is not None and kill_when(kept, after):
                    child.kill()
                time.sleep(_EVERY)
                ended = _wait(child, seen)
        finally:
            if not ended:
                child.kill()
                child.wait()
    return seen


def kept_lines(parts: Path) -> int:
    """Return the number of lines that are kept in a folder."""
    return len(list(parts.glob("*.line")))


def _wait(child: subprocess.Popen[bytes], seen: Watched) -> bool:
    """Return whether the process has ended; if so, with its status and time."""
    process, status, usage = os.wait4(child.pid, os.WNOHANG)
    if not process:
        return False
    child.returncode = seen.status = os.waitstatus_to_exitcode(status)
    seen.cpu_seconds = usage.ru_utime + usage.ru_stime
    return True


def _resident(process: int) -> tuple[int, int]:
    """Return the resident memory of a process and its peak, in bytes; 0 when it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0, 0
    values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    resident, peak = (int(values.get(name, "0").split()[0]) for name in ("VmRSS", "VmHWM"))
    return resident * 1024, peak * 1024
