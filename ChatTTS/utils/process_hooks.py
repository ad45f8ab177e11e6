"""Hooks for the interpreter's end and for forks, for all objects with threads.

A thread that returns from torch to an interpreter that has ended takes the process down
("terminate called without an active exception"). Therefore threads of this package end before the
interpreter does. A daemon thread of the caller's is told to end its call. Once it has, it is
stopped here for good.
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

from ..errors import OutOfThreadsError
from . import locks  # noqa: F401  its fork hook must run first: owners take locks in theirs
from .openmp import give_up_teams

# How long the interpreter's end waits for calls. A call that can be cancelled ends within a step.
_PATIENCE_SECONDS = 10.0


class ThreadOwner(Protocol):
    """An object with threads of its own."""

    def at_exit(self) -> None:
        """End the own threads, at the interpreter's end, and wake no other thread.

        Only daemon threads are left then beside the main thread.
        """

    def after_fork(self) -> None:
        """Begin anew in a forked child, where only the forking thread lives."""


# Hooks of the interpreter cannot be removed, so one hook of each kind serves all owners. It holds
# them weakly.
_OWNERS: weakref.WeakKeyDictionary[ThreadOwner, None] = weakref.WeakKeyDictionary()
# The calls that compute in their callers' threads, each with the callback that cancels it.
_CALLS: dict[object, tuple[threading.Thread, Callable[[], None]]] = {}
# The threads of owners. An owner that was dropped is in no list any more, while its thread may
# still free what it had.
_STARTED: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_IS_ENDING = threading.Event()
# Not empty once a thread of this process may have computed with torch for this package. No event:
# Ctrl-C in its method would leave its lock taken, and all later calls waiting.
_COMPUTED: set[bool] = set()


def register_thread_owner(owner: ThreadOwner) -> None:
    """Call ``owner`` at forks and at the interpreter's end from now on."""
    _OWNERS[owner] = None
    _COMPUTED.add(True)


def start_thread(thread: threading.Thread) -> None:
    """Start a thread of an owner; the interpreter's end waits for it, too.

    Where Ctrl-C comes meanwhile, the thread may have started or not, or hang for ever before its
    first instruction.

    Raises:
        OutOfThreadsError: the system gives no thread.
    """
    before = sys.exc_info()[1]
    _STARTED.add(thread)
    try:
        thread.start()
    except RuntimeError as error:
        # `start` waits for the new thread in Python code. Where Ctrl-C comes there, it releases a
        # lock that it does not hold, which is a RuntimeError.
        interrupt = error.__context__
        if isinstance(interrupt, KeyboardInterrupt) and interrupt is not before:
            raise interrupt from None
        raise OutOfThreadsError(
            f"the thread {thread.name!r} cannot be started ({error}): raise the limit of threads "
            "(ulimit -u, or pids of a container), or do less at once"
        ) from error


@contextmanager
def finish_before_exit(cancel: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Make the interpreter's end wait for the block, which computes in the caller's thread.

    A daemon thread that finishes the block at the interpreter's end is stopped there for good.

    Args:
        cancel: ends the block soon; called from any thread.
    """
    call = object()
    _COMPUTED.add(True)
    try:
        _CALLS[call] = threading.current_thread(), cancel
        _stop_at_exit()
        yield
    finally:
        _CALLS.pop(call, None)
        _stop_at_exit()


def _stop_at_exit() -> None:
    """Stop a daemon thread for good, as Python would at its next instruction, but not in torch."""
    if _IS_ENDING.is_set() and threading.current_thread() is not threading.main_thread():
        never = threading.Lock()
        never.acquire()
        never.acquire()


def _others_compute() -> bool:
    own = threading.current_thread()
    return any(thread is not own and thread.is_alive() for thread, _ in list(_CALLS.values()))


def _at_exit() -> None:
    _IS_ENDING.set()
    for _, cancel in list(_CALLS.values()):
        cancel()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _others_compute() and time.monotonic() < deadline:
        time.sleep(0.005)
    for owner in reversed(list(_OWNERS)):  # a later owner may wait for earlier ones
        owner.at_exit()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for thread in list(_STARTED):
        if thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))


def _after_fork() -> None:
    _CALLS.clear()  # the child must not cancel the forking thread's own call
    if _COMPUTED:
        give_up_teams()
    for owner in list(_OWNERS):
        owner.after_fork()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
