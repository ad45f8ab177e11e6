"""A fair lock around work that uses every core.

The engine's steps and the vocoder both use every core that the process may have. Running side by
side, they would wait for each other at every barrier, which costs much more than taking turns.

A fork waits for the present work as well. The libraries under torch have locks of their own, such
as the one around MKL's buffers. A child that is forked while another thread holds one would wait
for it for ever. A thread that computed takes MKL's lock once more while it ends, after Python has
forgotten it, so a fork waits for such threads, too.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from .locks import new_lock

T = TypeVar("T")

# On Windows, Ctrl-C cannot interrupt a wait without a limit.
_POLL_SECONDS = 1.0
_FORK_POLL_SECONDS = 0.001
# A thread ends within microseconds. The system may give its number to a library's thread, though,
# and that one may live on.
_THREAD_END_SECONDS = 2.0
_THREADS = Path("/proc/self/task")  # a folder for each thread's number, on Linux

# Hooks of the interpreter cannot be removed, so one hook of each kind serves all locks. It holds
# them weakly.
_LOCKS: WeakSet[FairLock] = WeakSet()
_FORKING = threading.local()  # `stack`: what the thread that forks has to release


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
        # A signal handler that forks within a work enters it again.
        self._computes: Any = threading.RLock()
        self._last = threading.Lock()  # held until the last work in the queue is done
        self._forks: WeakSet[Any] = WeakSet()  # that wait, or are under way
        self._threads: set[int] = set()  # the system's numbers of those that worked
        _LOCKS.add(self)

    def run(self, work: Callable[[], T]) -> T:
        """Call ``work`` after all earlier calls are done, and return its result."""
        mine = threading.Lock()
        mine.acquire()
        try:
            with self._lock:
                before, self._last = self._last, mine
            while not before.acquire(timeout=_POLL_SECONDS):
                pass
            while self._forks:
                time.sleep(_FORK_POLL_SECONDS)
            # Ctrl-C may remove a thread from the queue while an earlier work still runs. The next
            # thread would then come too early, and this lock holds it back.
            with self._computes:
                self._remember_thread()
                return work()
        finally:
            mine.release()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the present work end, and begin no other before the block ends.

        A work of the calling thread, which a signal handler has interrupted, does not count.
        """
        fork = _Fork()  # leaves the set with this frame, wherever Ctrl-C comes
        self._forks.add(fork)
        with self._computes:
            self._wait_for_ending_threads()
            yield

    def _remember_thread(self) -> None:
        thread = threading.get_native_id()
        if thread not in self._threads:
            self._threads = {known for known in self._threads if _exists(known)} | {thread}

    def _wait_for_ending_threads(self) -> None:
        deadline = time.monotonic() + _THREAD_END_SECONDS
        while any(map(_exists, self._threads - _known_to_python())):
            if time.monotonic() > deadline:
                self._threads &= _known_to_python()
            time.sleep(_FORK_POLL_SECONDS)

    def after_fork(self) -> None:
        """Forget the queue in a forked child: the parent's other threads never run there."""
        self._last = threading.Lock()
        self._forks = WeakSet()
        self._threads = set()
        if not self._computes._is_owned():  # Ctrl-C ended the wait for another thread's work
            self._computes = threading.RLock()


def _exists(thread: int) -> bool:
    return (_THREADS / str(thread)).exists()


def _known_to_python() -> set[int]:
    return {thread.native_id or 0 for thread in threading.enumerate()}


class _Fork:
    """A fork that must find no work in progress."""


class NoLock(ComputeLock):
    """Runs all work at once, for devices where cores are not scarce."""

    def run(self, work: Callable[[], T]) -> T:
        """Call ``work`` now, and return its result."""
        return work()


def _before_fork() -> None:
    _FORKING.stack = ExitStack()
    for lock in sorted(_LOCKS, key=id):  # one order, as several threads may fork at once
        _FORKING.stack.enter_context(lock.paused())


def _after_fork_in_parent() -> None:
    # Freeing the stack releases all, in one instruction that Ctrl-C cannot divide.
    _FORKING.stack = None


def _after_fork_in_child() -> None:
    _FORKING.stack = None
    for lock in list(_LOCKS):
        lock.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
