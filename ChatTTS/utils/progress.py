"""Progress bars for what takes its time."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar
from weakref import WeakSet

from tqdm import tqdm

from .locks import new_rlock


class Bar(tqdm):
    """A bar that bears Ctrl-C and forks, which those of ``tqdm`` do not.

    Theirs share a lock of Python code with all other bars of the process, and take it also where
    none is shown. So bars of this class have a lock and a list of their own, and stand below those
    of others.
    """

    _lock = new_rlock()
    _instances: ClassVar[WeakSet[Any]] = WeakSet()
    monitor_interval = 0  # no thread

    def refresh(self, nolock: bool = False, lock_args: Any = None) -> bool:
        """As in ``tqdm``, which leaves the lock taken where Ctrl-C comes in between."""
        with self._lock:
            return bool(super().refresh(nolock=True))

    @classmethod
    def print(cls, line: str, file: Any) -> None:
        """Write a line between bars, not into them."""
        with cls._lock, cls.external_write_mode(file=file, nolock=True):
            tqdm.write(line, file=file, nolock=True)

    @classmethod
    def _get_free_pos(cls, instance: Any = None) -> int:
        others = [bar for bar in cls._instances if bar is not instance]
        taken = {abs(bar.pos) for bar in others if hasattr(bar, "pos")}
        return next(line for line in count(len(tqdm._instances)) if line not in taken)


def progress(what: str, unit: str, show: bool = True, total: int | None = None) -> Any:
    """A bar on standard error that comes up after two seconds, and only on a terminal."""
    return Bar(
        desc=what,
        unit=f" {unit}s",
        total=total,
        delay=2,
        leave=False,
        disable=None if show else True,
    )
