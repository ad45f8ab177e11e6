"""Progress bars for long work."""

from __future__ import annotations

import logging
import sys
from itertools import count
from typing import Any, ClassVar
from weakref import WeakSet

from tqdm import tqdm

from .locks import new_rlock


class Bar(tqdm):
    """A progress bar that stays usable after Ctrl-C and forks, unlike those of ``tqdm``.

    All bars of ``tqdm`` share a lock that is taken in Python code, even by bars that are not shown.
    So bars of this class have a lock and a list of their own, and are drawn below other bars.
    """

    _lock = new_rlock()
    _instances: ClassVar[WeakSet[Any]] = WeakSet()
    monitor_interval = 0  # no thread

    def refresh(self, nolock: bool = False, lock_args: Any = None) -> bool:
        """Draw the bar, with a lock that Ctrl-C cannot leave taken, unlike in ``tqdm``."""
        with self._lock:
            return bool(super().refresh(nolock=True))

    @classmethod
    def print(cls, line: str, file: Any) -> None:
        """Write a line above the bars, without damage to them."""
        with cls._lock, cls.external_write_mode(file=file, nolock=True):
            tqdm.write(line, file=file, nolock=True)

    @classmethod
    def _get_free_pos(cls, instance: Any = None) -> int:
        others = [bar for bar in cls._instances if bar is not instance]
        taken = {abs(bar.pos) for bar in others if hasattr(bar, "pos")}
        return next(line for line in count(len(tqdm._instances)) if line not in taken)


def progress(what: str, unit: str, show: bool = True, total: int | None = None) -> Any:
    """Return a bar on standard error; it appears after two seconds, and only on a terminal."""
    return Bar(
        desc=what,
        unit=f" {unit}s",
        total=total,
        delay=2,
        leave=False,
        disable=None if show else True,
    )


def announce(logger: logging.Logger, line: str) -> None:
    """Tell the caller what is about to take long: in the log, else on standard error.

    Without logging set up, Python shows warnings only, and waiting is no warning.
    """
    if logger.isEnabledFor(logging.INFO):
        logger.info(line)
    elif sys.stderr is not None:
        Bar.print(f"ChatTTS: {line}", sys.stderr)
