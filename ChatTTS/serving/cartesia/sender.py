"""Tells a client what comes of the text of one context, in Cartesia's messages."""

from __future__ import annotations

import base64
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ...audio.samples import SAMPLE_RATE
from ...pipeline.results import Fault, Word
from ..errors import ServingError
from ..live.listener import Utterance
from ..live.run import Run, RunEnd
from ..live.send_queue import SendQueue
from .bodies import as_floats
from .errors import INTERFACE, error_fields
from .words import MarkedWords


class ContextSender:
    """Sends the messages of one context.

    Args:
        queue: of the socket.
        context_id: goes into every message.
        is_float: whether samples are sent as 32-bit floats.
        on_failed: called after an error, which ends the context.
    """

    def __init__(
        self,
        queue: SendQueue,
        context_id: str,
        *,
        is_float: bool,
        on_failed: Callable[[], None],
    ) -> None:
        self._queue, self._context_id, self._is_float = queue, context_id, is_float
        self._on_failed = on_failed
        self._words = MarkedWords(1.0)
        self._offset = 0.0  # seconds of the runs before
        self._flushes: deque[int] = deque()  # those whose sound is not yet sent
        self._last_flush = 0
        self._has_failed = False
        self._since = time.monotonic()

    @property
    def interface(self) -> str:
        """The name of the protocol in logs."""
        return INTERFACE

    def expect_flush(self) -> None:
        """Note that ``flush_done`` is to follow the sound of the text so far."""
        self._last_flush += 1
        self._flushes.append(self._last_flush)

    async def run_started(self, run: Run) -> None:
        """Begin to count characters from 0."""
        self._words = MarkedWords(run.config.speed)

    async def utterance_started(self, run: Run, utterance: Utterance) -> None:
        """Note the text whose words follow."""
        self._words.append(utterance.text)

    async def words_known(self, run: Run, words: Sequence[Word]) -> None:
        """Send words with their times in the context's sound."""
        told = self._words.timestamps(words, self._offset)
        await self._send("timestamps", status_code=206, word_timestamps=told)

    async def faults_found(self, run: Run, faults: Sequence[Fault]) -> None:
        """Send nothing: no message tells faults."""

    async def sound(self, run: Run, data: bytes) -> None:
        """Send sound in base64."""
        now = time.monotonic()
        step, self._since = (now - self._since) * 1000, now
        await self._send(
            "chunk",
            status_code=206,
            data=base64.b64encode(as_floats(data) if self._is_float else data).decode("ascii"),
            step_time=round(step, 3),
        )

    async def run_ended(self, end: RunEnd) -> None:
        """Send ``flush_done``, where the client flushed."""
        run = end.run
        self._offset += run.source_samples / SAMPLE_RATE / run.config.speed
        if end.is_requested and self._flushes:
            number = self._flushes.popleft()
            await self._send("flush_done", status_code=206, flush_done=True, flush_id=number)

    async def context_ended(self) -> None:
        """Send ``done``, unless an error has ended the context."""
        if not self._has_failed:
            await self._send("done", done=True, status_code=200)

    async def failed(self, run: Run, error: ServingError) -> None:
        """Send the error of an utterance, and speak no more of the context."""
        run.is_abandoned = True
        await self.send_error(error)
        self._on_failed()

    async def send_error(self, error: ServingError) -> None:
        """Send an error, which ends the context for its client; only the first one is sent."""
        if not self._has_failed:
            self._has_failed = True
            await self._send("error", done=True, **error_fields(error))

    async def _send(self, kind: str, *, done: bool = False, **fields: Any) -> None:
        message = {"type": kind, "context_id": self._context_id, "done": done, **fields}
        await self._queue.put(json.dumps(message))
