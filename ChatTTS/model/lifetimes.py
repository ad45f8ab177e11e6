"""What owns threads must not outlive the interpreter, and begins anew in a forked child."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

import torch


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


def watch(owner: ThreadOwner) -> None:
    """From now on ``owner`` is told of forks and of the interpreter's end."""
    _OWNERS[owner] = None


def _at_exit() -> None:
    # A thread that comes back from torch to an interpreter that is gone takes the process down
    # ("terminate called without an active exception").
    for owner in reversed(list(_OWNERS)):  # who came last may wait for those before
        owner.at_exit()


def _after_fork() -> None:
    # The threads of torch's own operators stay with the parent, and OpenMP waits for them for ever.
    if len(_OWNERS) and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    for owner in list(_OWNERS):
        owner.after_fork()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
