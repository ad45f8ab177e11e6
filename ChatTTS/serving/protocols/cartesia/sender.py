"""Tells a client what comes of the text of one context, in Cartesia's messages."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ....pipeline.results import Word
from ...errors import ServingError
from ...live.listener import Listener, Utterance
from ...live.run import Run, RunEnd
from ...live.send_queue import SendQueue
from .errors import INTERFACE
from .messages import Messages


class ContextSender(Listener):
    """Sends the messages of one context.

    Args:
        queue: of the socket.
        context_id: goes into every message.
        is_float: whether samples are sent as 32-bit floats.
        on_failed: called after an error, which ends the context.
    """

    interface = INTERFACE

    def __init__(
        self,
        queue: SendQueue,
        context_id: str,
        *,
        is_float: bool,
        on_failed: Callable[[], None],
    ) -> None:
        self._queue, self._on_failed = queue, on_failed
        self._messages = Messages(context_id, is_float=is_float)
        self._offset = 0.0  # seconds of the runs before
        self._flushes: deque[int] = deque()  # those whose sound is not yet sent
        self._last_flush = 0
        self._has_failed = False

    def expect_flush(self) -> None:
        """Note that ``flush_done`` is to follow the sound of the text so far."""
        self._last_flush += 1
        self._flushes.append(self._last_flush)

    async def run_started(self, run: Run) -> None:
        """Begin to count characters from 0."""
        self._messages.begin(run.config.speed, self._offset)

    async def utterance_started(self, run: Run, utterance: Utterance) -> None:
        """Note the text whose words follow."""
        self._messages.append(utterance.text)

    async def words_known(self, run: Run, words: Sequence[Word]) -> None:
        """Send words with their times in the context's sound."""
        await self._send(self._messages.timestamps(words))

    async def sound(self, run: Run, data: bytes) -> None:
        """Send sound in base64."""
        await self._send(self._messages.chunk(data))

    async def run_ended(self, end: RunEnd) -> None:
        """Send ``flush_done``, where the client flushed."""
        self._offset += end.run.seconds
        if end.is_requested and self._flushes:
            number = self._flushes.popleft()
            message = self._messages.of(
                "flush_done", status_code=206, flush_done=True, flush_id=number
            )
            await self._send(message)

    async def context_ended(self) -> None:
        """Send ``done``, unless an error has ended the context."""
        if not self._has_failed:
            await self._send(self._messages.done())

    async def failed(self, run: Run, error: ServingError) -> None:
        """Send the error of an utterance, and speak no more of the context."""
        run.is_abandoned = True
        await self.send_error(error)
        self._on_failed()

    async def send_error(self, error: ServingError) -> None:
        """Send an error, which ends the context for its client; only the first one is sent."""
        if not self._has_failed:
            self._has_failed = True
            await self._send(self._messages.error(error))

    async def _send(self, message: dict[str, Any]) -> None:
        await self._queue.put(json.dumps(message))
