"""A property of a loaded checkpoint, which is searched for when a first call wants it."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..model.generation import Cancellation
from ..utils.locks import new_lock

T = TypeVar("T")

# How often a thread looks whether the search of another one has ended.
_SECONDS = 0.05


class _Search:
    """A running search.

    Ctrl-C may come before anything can tell that it has ended. So it is referred to weakly.
    """

    def __init__(self) -> None:
        self._thread = threading.current_thread()
        self.has_ended = False

    @property
    def holds_up(self) -> bool:
        """Return whether another thread runs it; a forked child has none of these threads."""
        is_ours = self._thread is threading.current_thread()
        return not self.has_ended and not is_ours and self._thread.is_alive()


class LazyValue(Generic[T]):
    """A value that an earlier search found, or that the first call that wants it searches for.

    Args:
        known: the value of an earlier search, if there was one.
        keep: stores a finding for later runs; returns the file, or ``None`` where it cannot.
    """

    def __init__(
        self,
        known: T | None = None,
        keep: Callable[[Any], Path | None] = lambda finding: None,
    ) -> None:
        self._known = known
        self._keep = keep
        self._lock = new_lock()
        self._search: Callable[[], _Search | None] = lambda: None

    @property
    def known(self) -> T | None:
        """The value, if it was found already."""
        return self._known

    def get(self, search: Callable[[], T | None], cancelled: Cancellation) -> T | None:
        """Return the value, after a search if it is not known.

        Threads that ask meanwhile wait for the search of the first one. If that fails, the next
        one searches.

        Args:
            search: finds the value and hands it to :meth:`put`; returns ``None`` if cancelled.

        Returns:
            The value; ``None`` once ``cancelled`` is set before it is known.
        """
        own = _Search()
        try:
            while not cancelled.is_set():
                with self._lock:
                    if self._known is not None:
                        return self._known
                    running = self._search()
                    is_free = running is None or not running.holds_up
                    if is_free:
                        self._search = weakref.ref(own)
                if is_free:
                    return search()
                time.sleep(_SECONDS)
            return None
        finally:
            own.has_ended = True

    def put(self, value: T, finding: Any) -> Path | None:
        """Use a value from now on, and store it; return its file, if there is one.

        Args:
            finding: the value with what else the file tells of it.
        """
        with self._lock:
            self._known = value
        return self._keep(finding)
