"""What computes must not outlive the interpreter, and begins anew in a forked child.

A thread that comes back from torch to an interpreter that is gone takes the process down
("terminate called without an active exception"). Threads of this package end before that. A daemon
thread of the caller's is told to end its call, and stays here once it has.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch

from ..errors import OutOfThreadsError
from . import locks  # noqa: F401  its hook for forks comes first: owners take locks in theirs

# How long the interpreter's end waits for calls, which end within a step where they can end early.
_PATIENCE_SECONDS = 10.0


class ThreadOwner(Protocol):
    """Something with threads of its own."""

    def at_exit(self) -> None:
        """At the interpreter's end, when only daemon threads are left beside the main one: end
        the own threads, and wake nobody."""

    def after_fork(self) -> None:
        """In the child, where only the forking thread lives: take fresh locks, drop the rest."""


# The hooks of the interpreter cannot be taken back, so there is one of each for all owners, and it
# knows them weakly.
_OWNERS: weakref.WeakKeyDictionary[ThreadOwner, None] = weakref.WeakKeyDictionary()
# The calls that compute in threads of their callers, and what ends each.
_CALLS: dict[object, tuple[threading.Thread, Callable[[], None]]] = {}
_OVER = threading.Event()


def watch(owner: ThreadOwner) -> None:
    """From now on ``owner`` is told of forks and of the interpreter's end."""
    _OWNERS[owner] = None


def start(thread: threading.Thread) -> None:
    """Start a thread. Where Ctrl-C comes in between, it may have started or not, or hang for ever
    before its first step.

    Raises:
        OutOfThreadsError: the system gives none.
    """
    before = sys.exc_info()[1]
    try:
        thread.start()
    except RuntimeError as error:
        # Python waits there for the thread in Python code, and where Ctrl-C comes in between it
        # leaves a lock that it does not have.
        interrupt = error.__context__
        if isinstance(interrupt, KeyboardInterrupt) and interrupt is not before:
            raise interrupt from None
        raise OutOfThreadsError(
            f"the thread {thread.name!r} cannot be started ({error}): raise the limit of threads "
            "(ulimit -u, or pids of a container), or do less at once"
        ) from error


@contextmanager
def ends_in_time(end: Callable[[], None] = lambda: None) -> Iterator[None]:
    """While a thread of the caller's computes here.

    At the interpreter's end a daemon thread comes no farther than to the end of this block.

    Args:
        end: makes it end soon, called from any thread.
    """
    call = object()
    try:
        _CALLS[call] = threading.current_thread(), end
        _stay_if_over()
        yield
    finally:
        _CALLS.pop(call, None)
        _stay_if_over()


def _stay_if_over() -> None:
    """Keep a daemon thread for ever, as Python would at its next step, but outside of torch."""
    if _OVER.is_set() and threading.current_thread() is not threading.main_thread():
        never = threading.Lock()
        never.acquire()
        never.acquire()


def _others_compute() -> bool:
    own = threading.current_thread()
    return any(thread is not own and thread.is_alive() for thread, _ in list(_CALLS.values()))


def _at_exit() -> None:
    _OVER.set()
    for _, end in list(_CALLS.values()):
        end()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _others_compute() and time.monotonic() < deadline:
        time.sleep(0.005)
    for owner in reversed(list(_OWNERS)):  # who came last may wait for those before
        owner.at_exit()


def _after_fork() -> None:
    _CALLS.clear()  # no thread of the child ends the forking thread's own call
    # The threads of torch's own operators stay with the parent, and OpenMP waits for them for ever.
    if len(_OWNERS) and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    for owner in list(_OWNERS):
        owner.after_fork()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
