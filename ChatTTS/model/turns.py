"""Who computes when the cores are few: one after another, in the order in which they ask.

The engine's steps and the vocoder both use every core that the process may have. Side by side they
would wait for each other at every barrier, which costs many times what taking turns does.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

from .lifetimes import watch


class Turns:
    """A lock that is fair: nobody who asks again comes before those who wait."""

    def __init__(self) -> None:
        self.after_fork()
        watch(self)

    def __enter__(self) -> None:
        mine = object()
        with self._changed:
            self._queue.append(mine)
            try:
                self._changed.wait_for(lambda: self._queue[0] is mine)
            except BaseException:  # Ctrl-C while waiting
                self._queue.remove(mine)
                self._changed.notify_all()
                raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()

    def at_exit(self) -> None:
        """Nothing to end."""

    def after_fork(self) -> None:
        """Nobody of the parent computes in a forked child."""
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
