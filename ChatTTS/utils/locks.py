"""Locks that stay usable after Ctrl-C in the main thread and after forks.

Python runs the handler of a signal between two instructions of the main thread. Entering a lock of
``threading`` by ``with`` is one instruction, and so is leaving it. ``threading.Condition`` does
both in Python code: an interrupt in there leaves its lock taken for ever, and every thread waits.
Therefore three rules hold in this package:

- A lock is entered by ``with`` only. The locks in ``fair_lock.py`` and ``process_hooks.py`` that
  are taken otherwise guard nothing: they are signals.
- No thread waits for a change with a lock held. It subscribes to a :class:`ChangeNotifier`, leaves
  the lock, waits, and looks again.
- Ctrl-C may come at any instruction under a lock, so the data there must stay usable for other
  threads at every instruction.

A forked child has none of the parent's other threads, so it must not inherit locks that those held.
All locks made here are free in a child. That includes locks of the forking thread itself: a signal
handler that forks within a lock's block, and returns, leaves that block with an error.
"""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

# Hooks of the interpreter cannot be removed, so one hook serves all locks. It holds them weakly.
_LOCKS: WeakSet[Any] = WeakSet()


def new_lock() -> threading.Lock:
    """Return a lock that is free in a forked child."""
    lock = threading.Lock()
    _LOCKS.add(lock)
    return lock


def new_rlock() -> threading.RLock:
    """Return a lock as :func:`new_lock` does, which its thread may enter again."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


class WakeSignal:
    """A signal that one thread waits for, with no lock held."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[None] = SimpleQueue()

    def wake(self) -> None:
        """End the present wait, or the next one."""
        self._queue.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for :meth:`wake`, at most ``seconds``; return whether it came."""
        try:
            self._queue.get(timeout=seconds)
        except Empty:
            return False
        return True


class ChangeNotifier:
    """Wakes the threads that wait for a change of the data under a lock. ::

        signal = WakeSignal()
        while True:
            with lock:
                if there_is_something():
                    return take_it()
                notifier.subscribe(signal)
            signal.wait(seconds)

    An interrupt may prevent a notification, so every wait needs a limit.
    """

    def __init__(self) -> None:
        self._signals: set[WakeSignal] = set()

    def subscribe(self, signal: WakeSignal) -> None:
        """Wake ``signal`` at the next :meth:`notify`; called with the lock held."""
        self._signals.add(signal)

    def notify(self) -> None:
        """Wake all subscribed signals and remove them; called with the lock held."""
        for signal in self._signals:
            signal.wake()
        self._signals.clear()


def _after_fork() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()  # as Python's own modules do it


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
