"""Waits that end, for what a test needs and of threads that it holds; and a clock that it moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SECONDS = 20  # longer than this counts as a hang


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until ``holds`` returns true, for at most ``SECONDS``."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "this takes too long"
        time.sleep(0.001)


class Gate:
    """A gate that lets threads pass, or holds them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_open = True
        self._inside = 0

    def hold(self) -> None:
        """Hold every thread from now on."""
        with self._changed:
            self._is_open = False

    def wait(self) -> None:
        """Wait until a thread is held."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._inside > 0, SECONDS), "no thread came"

    def open(self) -> None:
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def pass_by(self) -> None:
        with self._changed:
            self._inside += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._is_open, SECONDS), "the gate stayed closed"
            self._inside -= 1


class Clock:
    """A clock that moves when the test moves it.

    Attributes:
        now: what it tells.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
