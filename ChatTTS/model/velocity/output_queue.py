"""Queues from the engine's thread to its callers. The engine's thread never waits for a caller."""

from __future__ import annotations

import asyncio
import queue
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...errors import EngineDeadError
from ..generation import Cancellation
from .output import RequestOutput


@dataclass(frozen=True)
class EngineEnd:
    """The error that ended an engine, and what a caller should do."""

    error: BaseException
    advice: str


# What a caller gets.
Item = Sequence[RequestOutput] | EngineEnd

# On Windows a thread that waits without a timeout cannot be interrupted by Ctrl-C.
_POLL_SECONDS = 1.0


class OutputQueue(ABC):
    """The outputs of all requests of one caller.

    Args:
        cancelled: an event by which the caller ends its requests.

    Attributes:
        is_abandoned: whether the caller has stopped reading.
    """

    def __init__(self, cancelled: Cancellation | None = None) -> None:
        # The engine's thread reads it, so an error of a caller's event must not get out.
        is_safe = cancelled is None or type(cancelled) is Cancellation
        self._cancelled = cancelled if is_safe else Cancellation(cancelled)
        self.is_abandoned = False

    def abandon(self) -> None:
        """Stop reading; the engine then aborts the requests.

        This takes no lock, because the garbage collector may close a generator, and so call this,
        in any thread.
        """
        self.is_abandoned = True

    @property
    def is_cancelled(self) -> bool:
        """Return whether the caller wants its requests to end."""
        return self._cancelled is not None and self._cancelled.is_set()

    @property
    def is_wanted(self) -> bool:
        """Return whether the caller's requests should go on."""
        return not self.is_abandoned and not self.is_cancelled

    @abstractmethod
    def put(self, item: Item) -> None:
        """Add an item, without waiting."""

    @abstractmethod
    def after_fork(self, advice: str) -> None:
        """In a forked child: wake the caller with an error, since the requests stay behind.

        Args:
            advice: what the caller should do.
        """


class ThreadOutputQueue(OutputQueue):
    """For a caller that waits in a thread."""

    def __init__(self, cancelled: Cancellation | None = None) -> None:
        super().__init__(cancelled)
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()

    def put(self, item: Item) -> None:
        self._items.put(item)

    def get(self) -> Item:
        """Wait for the next item and return it."""
        while True:
            try:
                return self._items.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue

    def after_fork(self, advice: str) -> None:
        # A new queue: a thread of the parent may hold the lock of the old one.
        self._items = queue.SimpleQueue()
        error = RuntimeError("the process was forked, and its requests stayed in the parent")
        self.put(EngineEnd(error, advice))


class PushOutputQueue(OutputQueue):
    """For a caller that has its items pushed, and a thread of its own that looks at them.

    Args:
        receive: takes an item in the engine's thread, and must not wait.
    """

    def __init__(self, receive: Callable[[Item], object], cancelled: Cancellation) -> None:
        super().__init__(cancelled)
        self._receive = receive

    def put(self, item: Item) -> None:
        self._receive(item)

    def after_fork(self, advice: str) -> None:
        """Do nothing: the caller's thread stayed in the parent, and the caller knows."""


class AsyncOutputQueue(OutputQueue):
    """For a caller that waits in the asyncio loop that is running now."""

    def __init__(self, cancelled: Cancellation | None = None) -> None:
        super().__init__(cancelled)
        self.loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item] = asyncio.Queue()

    def put(self, item: Item) -> None:
        """Add an item, in the thread of the loop only; see :func:`put_all`."""
        self._items.put_nowait(item)

    async def get(self) -> Sequence[RequestOutput]:
        """Wait for the next outputs and return them.

        Raises:
            EngineDeadError: an error ended the engine.
        """
        return outputs_of(await self._items.get())

    def after_fork(self, advice: str) -> None:
        """Do nothing: the loop does not run in the child, and waking it would wake the parent's."""


def put_all(items: Iterable[tuple[OutputQueue, Item]]) -> None:
    """Add each item to its queue, unless that is abandoned. Each loop is woken once.

    Any thread may call this.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[AsyncOutputQueue, Item]]] = {}
    for output_queue, item in items:
        if output_queue.is_abandoned:
            continue
        if isinstance(output_queue, AsyncOutputQueue):
            by_loop.setdefault(output_queue.loop, []).append((output_queue, item))
        else:
            output_queue.put(item)
    for loop, pairs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_put_in_loop, pairs)
        except RuntimeError:  # the loop was closed, so its callers are gone
            for output_queue, _ in pairs:
                output_queue.abandon()


def _put_in_loop(pairs: Sequence[tuple[AsyncOutputQueue, Item]]) -> None:
    for output_queue, item in pairs:
        output_queue.put(item)


def outputs_of(item: Item) -> Sequence[RequestOutput]:
    """Return the outputs of an item.

    Raises:
        EngineDeadError: an error ended the engine.
    """
    if isinstance(item, EngineEnd):
        # A new exception for each caller: raising one in several threads would mix tracebacks.
        raise EngineDeadError(f"the engine stopped: {item.error}; {item.advice}") from item.error
    return item
