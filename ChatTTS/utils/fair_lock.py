"""Who computes when the cores are few: one after another, in the order in which they ask.

The engine's steps and the vocoder both use every core that the process may have. Side by side they
would wait for each other at every barrier, which costs many times what taking turns does.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from .locks import new_lock
from .process_hooks import watch

T = TypeVar("T")

# A thread that waits for ever cannot be interrupted by Ctrl-C on Windows.
_POLL_SECONDS = 1.0


class Turns(ABC):
    """Says when work may be done that needs all cores."""

    @abstractmethod
    def run(self, work: Callable[[], T]) -> T:
        """What ``work`` returns; it is called in this thread when its turn comes."""


class FairTurns(Turns):
    """One after another: none that asks again comes before those that wait.

    It is no context manager: leaving one runs Python code, which Ctrl-C may interrupt before it
    has begun, and the turn would never end.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._computes = new_lock()
        self._last = threading.Lock()  # held until the last turn that was asked for is over
        watch(self)

    def run(self, work: Callable[[], T]) -> T:
        """See :class:`Turns`."""
        mine = threading.Lock()
        mine.acquire()
        try:
            with self._lock:
                before, self._last = self._last, mine
            while not before.acquire(timeout=_POLL_SECONDS):
                pass
            # Ctrl-C takes a thread out of the line while others still compute before it: the one
            # behind it then comes early.
            with self._computes:
                return work()
        finally:
            mine.release()

    def at_exit(self) -> None:
        """Nothing to end."""

    def after_fork(self) -> None:
        """None of the parent's other threads comes to its turn in a forked child."""
        self._last = threading.Lock()


class NoTurns(Turns):
    """All at once, where cores are not what is short."""

    def run(self, work: Callable[[], T]) -> T:
        """See :class:`Turns`."""
        return work()
