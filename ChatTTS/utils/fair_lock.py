"""A fair lock around work that uses every core.

The engine's steps and the vocoder both use every core that the process may have. Running side by
side, they would wait for each other at every barrier, which costs much more than taking turns.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from .locks import new_lock
from .process_hooks import register_thread_owner

T = TypeVar("T")

# On Windows, Ctrl-C cannot interrupt a wait without a limit.
_POLL_SECONDS = 1.0


class ComputeLock(ABC):
    """Decides when work that needs all cores may run."""

    @abstractmethod
    def run(self, work: Callable[[], T]) -> T:
        """Call ``work`` in this thread when it is its turn, and return its result."""


class FairLock(ComputeLock):
    """Runs one work at a time, in the order of the calls.

    It is no context manager. The exit of one is Python code, and Ctrl-C may interrupt that code
    before it begins: then the lock would never be released.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._computes = new_lock()
        self._last = threading.Lock()  # held until the last work in the queue is done
        register_thread_owner(self)

    def run(self, work: Callable[[], T]) -> T:
        """Call ``work`` after all earlier calls are done, and return its result."""
        mine = threading.Lock()
        mine.acquire()
        try:
            with self._lock:
                before, self._last = self._last, mine
            while not before.acquire(timeout=_POLL_SECONDS):
                pass
            # Ctrl-C may remove a thread from the queue while an earlier work still runs. The next
            # thread would then come too early, and this lock holds it back.
            with self._computes:
                return work()
        finally:
            mine.release()

    def at_exit(self) -> None:
        """Do nothing: there is no thread to end."""

    def after_fork(self) -> None:
        """Forget the queue in a forked child: the parent's other threads never run there."""
        self._last = threading.Lock()


class NoLock(ComputeLock):
    """Runs all work at once, for devices where cores are not scarce."""

    def run(self, work: Callable[[], T]) -> T:
        """Call ``work`` now, and return its result."""
        return work()
