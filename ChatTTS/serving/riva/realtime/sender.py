"""Tells a client what comes of its text, in the messages of Riva's realtime API."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from ....pipeline.results import Fault, Word
from ...errors import ServingError
from ...live.listener import Utterance
from ...live.run import Run, RunEnd
from ...live.send_queue import SendQueue
from ...requests import new_request_id
from ...speech import silence

INTERFACE = "riva-realtime"
"""The name of this interface in logs."""


class Sender:
    """Sends the messages of one socket.

    Args:
        queue: of the socket.
    """

    def __init__(self, queue: SendQueue) -> None:
        self._queue = queue

    @property
    def interface(self) -> str:
        """The name of the protocol in logs."""
        return INTERFACE

    async def send(self, kind: str, **fields: Any) -> None:
        """Send a message."""
        message = {"event_id": new_request_id(), "type": kind, **fields}
        await self._queue.put(json.dumps(message))

    async def send_error(self, error: ServingError) -> None:
        """Send an error."""
        await self.send("error", error=error.as_json())

    async def run_started(self, run: Run) -> None:
        """Send nothing: the sound has no header."""

    async def utterance_started(self, run: Run, utterance: Utterance) -> None:
        """Send nothing: no message tells sentences."""

    async def words_known(self, run: Run, words: Sequence[Word]) -> None:
        """Send nothing: no message tells words."""

    async def faults_found(self, run: Run, faults: Sequence[Fault]) -> None:
        """Send nothing: no message tells faults."""

    async def sound(self, run: Run, data: bytes) -> None:
        """Send sound in base64."""
        audio = base64.b64encode(data).decode("ascii")
        await self.send("conversation.item.speech.data", audio=audio)

    async def run_ended(self, end: RunEnd) -> None:
        """Send the end of a text; a short silence before it if it had nothing to speak."""
        run = end.run
        if run.is_abandoned:
            return
        if not run.is_started:
            encoder = run.config.encoder()
            await self.sound(run, encoder.push(silence().samples) + encoder.finish())
        await self.send("conversation.item.speech.completed", is_last_result=True)

    async def context_ended(self) -> None:
        """Send nothing: a socket has one context, which ends with it."""

    async def failed(self, run: Run, error: ServingError) -> None:
        """Send the error of an utterance, and speak no more of its text."""
        run.is_abandoned = True
        await self.send_error(error)
