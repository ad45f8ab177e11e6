"""Where the engine's thread lays down what a caller waits for; nobody's slowness holds it up."""

from __future__ import annotations

import asyncio
import queue
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from ...errors import EngineDeadError
from ..generation import Cancellation
from .output import RequestOutput

# What a caller gets: outputs, or the error that ended the engine.
Item = Sequence[RequestOutput] | BaseException

# A thread that waits for ever cannot be interrupted by Ctrl-C on Windows.
_POLL_SECONDS = 1.0


class Sink(ABC):
    """What one caller waits at, for all of its requests.

    Attributes:
        has_left: whether nobody listens any more.
    """

    def __init__(self, cancelled: Cancellation | None = None) -> None:
        # The engine's thread asks it, so what a caller's own event raises must stay there.
        is_safe = cancelled is None or type(cancelled) is Cancellation
        self._cancelled = cancelled if is_safe else Cancellation(cancelled)
        self.has_left = False

    def leave(self) -> None:
        """Say that nobody listens any more. It takes no lock, so that a generator may do it that
        the garbage collector closes in whatever thread."""
        self.has_left = True

    @property
    def is_cancelled(self) -> bool:
        """Whether the caller wants its requests to end."""
        return self._cancelled is not None and self._cancelled.is_set()

    @property
    def is_wanted(self) -> bool:
        """Whether the caller's requests are to go on."""
        return not self.has_left and not self.is_cancelled

    @abstractmethod
    def put(self, item: Item) -> None:
        """Lay down an item, without waiting."""

    @abstractmethod
    def after_fork(self) -> None:
        """In a forked child: whoever waits here must learn that nothing comes any more."""


class ThreadSink(Sink):
    """The sink of a caller who waits in a thread."""

    def __init__(self, cancelled: Cancellation | None = None) -> None:
        super().__init__(cancelled)
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()

    def put(self, item: Item) -> None:
        self._items.put(item)

    def get(self) -> Sequence[RequestOutput]:
        """What came next.

        Raises:
            EngineDeadError: an error ended the engine.
        """
        while True:
            try:
                item = self._items.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            return _opened(item)

    def after_fork(self) -> None:
        self._items = queue.SimpleQueue()  # of the old one's lock nobody knows who holds it
        self.put(RuntimeError("the process was forked, and its requests stayed in the parent"))


class LoopSink(Sink):
    """The sink of a caller who waits in an asyncio loop, the one that runs now."""

    def __init__(self, cancelled: Cancellation | None = None) -> None:
        super().__init__(cancelled)
        self.loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item] = asyncio.Queue()

    def put(self, item: Item) -> None:
        """As everywhere, but in the loop's thread alone; see :func:`hand_over`."""
        self._items.put_nowait(item)

    async def get(self) -> Sequence[RequestOutput]:
        """As :meth:`ThreadSink.get`."""
        return _opened(await self._items.get())

    def after_fork(self) -> None:
        """A loop does not live on in a child, and to wake it would wake the parent's."""


def hand_over(items: Iterable[tuple[Sink, Item]]) -> None:
    """Lay every item down at its sink, if anybody listens there, from any thread; each loop is
    woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[LoopSink, Item]]] = {}
    for sink, item in items:
        if sink.has_left:
            continue
        if isinstance(sink, LoopSink):
            by_loop.setdefault(sink.loop, []).append((sink, item))
        else:
            sink.put(item)
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_put_all, waiting)
        except RuntimeError:  # the loop was closed, and its callers with it
            for sink, _ in waiting:
                sink.leave()


def _put_all(items: Sequence[tuple[LoopSink, Item]]) -> None:
    for sink, item in items:
        sink.put(item)


def _opened(item: Item) -> Sequence[RequestOutput]:
    if isinstance(item, BaseException):
        # Every caller gets an exception of its own: threads would add to one traceback.
        raise EngineDeadError(f"the engine stopped: {item}; load the model again") from item
    return item
