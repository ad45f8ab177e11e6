"""Ctrl-C and SIGTERM, as a server takes them."""

from __future__ import annotations

import asyncio
import signal


def stop_event() -> asyncio.Event:
    """Return an event that the first signal sets; the second one cancels the current task."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def stopped() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stopped)
        except NotImplementedError:  # Windows: Ctrl-C raises KeyboardInterrupt instead
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopped))
    return stop
