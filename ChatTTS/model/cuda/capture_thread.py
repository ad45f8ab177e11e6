"""Captures behind a start, of the graphs that the first calls do not need."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Protocol

from ...errors import OutOfThreadsError
from ...utils.locks import WakeSignal
from ...utils.process_hooks import register_thread_owner, start_thread
from .graphs import give_back_memory

logger = logging.getLogger(__name__)

_UNCAPTURED = "some launches on the GPU are not captured and take longer: %s"


class Capturable(Protocol):
    """An object whose graphs can be captured beside its use.

    Attributes:
        left: how many are still to be made.
    """

    @property
    def left(self) -> int: ...

    def capture_next(self) -> bool:
        """Capture one graph; return False where none is left."""
        ...


def capture_in_background(parts: Iterable[Capturable]) -> None:
    """Capture the graphs that are left in a thread, one part after another."""
    given = [part for part in parts if part.left]
    if not given:
        return
    logger.info("%d more launches are captured meanwhile", sum(part.left for part in given))
    try:
        CaptureThread(given)
    except OutOfThreadsError as error:
        logger.warning(_UNCAPTURED, error)


class CaptureThread:
    """A thread that captures the graphs that are left, one part after another, and ends.

    Python's share of a capture holds up other threads, so the thread rests after each one for as
    long as that took. It keeps no part alive, and ends with the parts.

    Args:
        parts: in the order in which they are captured.

    Raises:
        OutOfThreadsError: the system gives no thread.
    """

    def __init__(self, parts: Sequence[Capturable]) -> None:
        self._parts = [weakref.ref(part) for part in parts]
        self._end = WakeSignal()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        register_thread_owner(self)
        start_thread(self._thread)

    def join(self, seconds: float) -> bool:
        """Wait for the thread's end, at most ``seconds``; return whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def at_exit(self) -> None:
        """End after the present capture, at the interpreter's end."""
        self._end.wake()

    def after_fork(self) -> None:
        """Do nothing: a forked child has neither the thread nor the device."""

    def _run(self) -> None:
        began, count = time.monotonic(), 0
        try:
            for part in self._parts:
                while (seconds := _capture_one(part)) is not None:
                    count += 1
                    if self._end.wait(seconds):
                        return
            logger.info("captured %d more launches in %.1f s", count, time.monotonic() - began)
        except Exception as error:  # the device's errors have many classes
            logger.warning(_UNCAPTURED, error)
        finally:
            if any(part() is None for part in self._parts):
                give_back_memory()  # what was dropped meanwhile is freed only now


def _capture_one(reference: weakref.ref[Capturable]) -> float | None:
    """Capture a graph, if the part lives and has one left; return the seconds that it took."""
    part, began = reference(), time.monotonic()
    if part is None or not part.capture_next():
        return None
    return time.monotonic() - began
