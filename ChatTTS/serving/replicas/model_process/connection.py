"""The front's end of the socket to the model's process."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable

from ....pipeline.results import Piece
from ..messages import Alive
from ..pool import ReplicaLostError
from .plain_data import WireError
from .wire import AHEAD_SAMPLES, BEAT_SECONDS, CONNECTION, Decoder, Leave, Sent, Taken, encode

logger = logging.getLogger(__name__)

# Samples that a caller takes between two messages about it.
_TOLD_SAMPLES = AHEAD_SAMPLES // 4
SILENT_BEATS = 15
"""Beats that a process may miss before it counts as lost."""


class Connection(asyncio.Protocol):
    """Calls to one process, in the loop of the front.

    Args:
        name: of the process.
        lost: called once when the process does not answer any more.
        beat_seconds: between two looks whether something came.

    Attributes:
        unrecorded: see ``Alive``, as the process said last.
    """

    def __init__(
        self, name: str, lost: Callable[[], None], beat_seconds: float = BEAT_SECONDS
    ) -> None:
        self.name, self._lost, self._beat_seconds = name, lost, beat_seconds
        self._loop = asyncio.get_running_loop()
        self._decoder, self._numbers = Decoder(), itertools.count(CONNECTION + 1)
        self._calls: dict[int, _Inbox] = {}
        self._reason: str | None = None
        self._missed = 0
        self.unrecorded = 0

    @property
    def is_open(self) -> bool:
        """Return whether the process still answers."""
        return self._reason is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and look for signs of life from now on."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop.call_later(self._beat_seconds, self._look)

    def data_received(self, data: bytes) -> None:
        """Give each message to its call; those of calls that were left are dropped."""
        self._missed = 0
        try:
            for call, message in self._decoder.feed(data):
                if inbox := self._calls.get(call):
                    inbox.put(message)
                elif call == CONNECTION:
                    if not isinstance(message, Alive):
                        raise WireError(f"a {type(message).__name__} of no call")
                    self.unrecorded = message.unrecorded
        except WireError as error:
            self.lose(f"it sent what is no message: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        """End all calls."""
        self._end("its process is gone")  # the log says how it ended

    def lose(self, reason: str) -> None:
        """Give the process up: end all calls, and close the socket."""
        if self._reason is None:
            logger.error("the model's process is lost: %s", reason)
            self._end(reason)

    def _end(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
            self._transport.abort()
            for inbox in self._calls.values():
                inbox.put(None)
            self._lost()

    async def call(self, message: Sent) -> AsyncGenerator[Sent, None]:
        """Yield the answers to a message; closing the generator ends the call.

        Raises:
            ReplicaLostError: the process is gone.
        """
        number = next(self._numbers)
        if self._reason is not None:
            raise ReplicaLostError(self._reason)
        self._calls[number] = inbox = _Inbox(self._loop)
        self._transport.write(encode(number, message))
        taken = 0
        try:
            while True:
                while not inbox.messages:
                    await inbox.filled()
                answer = inbox.messages.popleft()
                if answer is None:
                    raise ReplicaLostError(self._reason)
                yield answer
                taken += len(answer.samples) if isinstance(answer, Piece) else 0
                if taken >= _TOLD_SAMPLES and self._reason is None:
                    self._transport.write(encode(number, Taken(taken)))
                    taken = 0
        finally:
            del self._calls[number]
            if self._reason is None:
                self._transport.write(encode(number, Leave()))

    def _look(self) -> None:
        """Give a process up that says nothing, not even that it runs.

        Looks are counted, not seconds: a front that was stopped for a while reads first what came
        meanwhile.
        """
        if self._reason is None:
            self._missed += 1
            if self._missed > SILENT_BEATS:
                self.lose(f"it said nothing for {SILENT_BEATS * self._beat_seconds:g} s")
            else:
                self._loop.call_later(self._beat_seconds, self._look)


class _Inbox:
    """The messages of a call that were not taken yet; ``None`` behind the last of a lost process.

    One task takes them. It has no task or timer for a message, and a future only while it waits.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.messages: deque[Sent | None] = deque()
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None

    def put(self, message: Sent | None) -> None:
        self.messages.append(message)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def filled(self) -> None:
        """Wait until there is a message."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
