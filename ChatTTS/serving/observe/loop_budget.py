"""The share of the event loop's time that the texts of one client may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SHARE = 0.1


class LoopBudget:
    """Delays a client whose texts take too much of the loop's time, on all of its sockets.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._free_at = 0.0

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time of this context, in which nothing is awaited."""
        start = self._clock()
        try:
            yield
        finally:
            taken = self._clock() - start
            self._free_at = max(self._free_at, start) + taken / _SHARE

    async def pause(self) -> None:
        """Wait until the client may go on; other tasks have a turn in any case."""
        await asyncio.sleep(max(0.0, self._free_at - self._clock()))
