"""The delay of the event loop's work: every stream of every client waits so long."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PAUSE_SECONDS = 0.01
# By default a thread that computes keeps Python's lock for 5 ms each time, also before the event
# loop and the engine.
_SWITCH_SECONDS = 0.001


@contextmanager
def quick_turns() -> Iterator[None]:
    """Have the threads of the process take shorter turns within this context."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


async def watch_loop(
    observe: Callable[[float], None], clock: Callable[[], float] = time.monotonic
) -> None:
    """Call ``observe`` with the seconds by which the loop is late, again and again."""
    while True:
        due = clock() + _PAUSE_SECONDS
        await asyncio.sleep(_PAUSE_SECONDS)
        observe(max(0.0, clock() - due))
