"""Locks that bear Ctrl-C in the main thread, and forks.

Python runs the handler of a signal between two instructions of the main thread. To enter a lock of
``threading`` by ``with`` is one instruction, and so is to leave it. ``threading.Condition`` does
both in Python code: an interrupt in there leaves its lock taken for good, and every thread waits.
Therefore three rules hold in this package:

- locks are entered by ``with``, and by nothing else; those in ``turns.py`` and ``lifetimes.py``
  that are taken otherwise guard nothing, they are signals;
- nothing waits for a change with a lock held: it asks a :class:`Bell` to be woken, leaves the lock,
  waits, and looks again;
- what Ctrl-C may interrupt under a lock leaves others something that they can work with at every
  instruction.

A forked child has none of the parent's other threads, so locks that these held are never left
there. All locks that are made here are free in a child, also those of the forking thread itself: a
signal handler that forks within a lock's block, and returns, leaves that block with an error.
"""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

# The hooks of the interpreter cannot be taken back, so there is one for all locks. It knows them
# weakly.
_LOCKS: WeakSet[Any] = WeakSet()


def new_lock() -> threading.Lock:
    """A lock that is free in a forked child."""
    lock = threading.Lock()
    _LOCKS.add(lock)
    return lock


def new_rlock() -> threading.RLock:
    """As :func:`new_lock`; a thread that has it may enter it again."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


class Waiter:
    """What one thread waits at, with no lock held."""

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()

    def wake(self) -> None:
        """End the wait, or the next one."""
        self._rings.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait until a bell rings, but not longer than ``seconds``; whether it rang."""
        try:
            self._rings.get(timeout=seconds)
        except Empty:
            return False
        return True


class Bell:
    """Wakes the threads that wait for a change of what a lock guards. ::

        waiter = Waiter()
        while True:
            with lock:
                if there_is_something():
                    return take_it()
                bell.will_wake(waiter)
            waiter.wait(seconds)

    An interrupt may keep a ring from some waiters, so none may wait for ever.
    """

    def __init__(self) -> None:
        self._waiters: set[Waiter] = set()

    def will_wake(self, waiter: Waiter) -> None:
        """Wake ``waiter`` at the next ring; called with the lock held."""
        self._waiters.add(waiter)

    def ring(self) -> None:
        """Wake all that wait; called with the lock held."""
        for waiter in self._waiters:
            waiter.wake()
        self._waiters.clear()


def _after_fork() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()  # as Python's own modules do it


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
