"""The attention heads of a loaded checkpoint whose configuration names none."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from ...config import AlignmentHeads
from ...model.generation import Cancellation
from ...utils.locks import new_lock
from .head_scores import HeadChoice

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


class FoundHeads:
    """Heads that an earlier search found, or that the first call that wants them searches for.

    Args:
        heads: of an earlier search, if there was one.
        keep: stores a choice for later runs; returns the file, or ``None`` where it cannot.
    """

    def __init__(
        self,
        heads: AlignmentHeads = (),
        keep: Callable[[HeadChoice], Path | None] = lambda choice: None,
    ) -> None:
        self._heads = heads
        self._keep = keep
        self._lock = new_lock()
        self._search: Callable[[], _Search | None] = lambda: None

    @property
    def known(self) -> AlignmentHeads:
        """The heads, if they were found already."""
        return self._heads

    def get(
        self, search: Callable[[], HeadChoice | None], cancelled: Cancellation
    ) -> AlignmentHeads:
        """Return the heads, after a search if they are not known.

        Threads that ask meanwhile wait for the search of the first one. If that fails, the next
        one searches.

        Args:
            search: finds the heads and hands them to :meth:`put`; returns ``None`` if cancelled.

        Returns:
            The heads; none once ``cancelled`` is set before they are known.
        """
        own = _Search()
        try:
            while not cancelled.is_set():
                with self._lock:
                    if self._heads:
                        return self._heads
                    is_free = not self._is_held_up()
                    if is_free:
                        self._search = weakref.ref(own)
                if is_free:
                    choice = search()
                    return () if choice is None else choice.heads
                time.sleep(_SECONDS)
            return ()
        finally:
            own.has_ended = True

    def put(self, choice: HeadChoice) -> Path | None:
        """Use a choice from now on, and store it; return its file, if there is one."""
        with self._lock:
            self._heads = choice.heads
        return self._keep(choice)

    def _is_held_up(self) -> bool:
        running = self._search()
        return running is not None and running.holds_up
