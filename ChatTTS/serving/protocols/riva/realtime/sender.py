"""Tells a client what comes of its text, in the messages of Riva's realtime API."""

from __future__ import annotations

import json
from typing import Any

from ....encoding.base64_blocks import to_base64
from ....errors import ServingError
from ....live.listener import Listener
from ....live.run import Run, RunEnd
from ....live.send_queue import SendQueue
from ....requests.request import new_request_id

INTERFACE = "riva-realtime"
"""The name of this interface in logs."""


class Sender(Listener):
    """Sends the messages of one socket.

    Args:
        queue: of the socket.
    """

    interface = INTERFACE

    def __init__(self, queue: SendQueue) -> None:
        self._queue = queue

    async def send(self, kind: str, **fields: Any) -> None:
        """Send a message."""
        message = {"event_id": new_request_id(), "type": kind, **fields}
        await self._queue.put(json.dumps(message))

    async def send_error(self, error: ServingError) -> None:
        """Send an error."""
        await self.send("error", error=error.as_json())

    async def sound(self, run: Run, data: bytes) -> None:
        """Send sound in base64."""
        await self.send("conversation.item.speech.data", audio=to_base64(data))

    async def run_ended(self, end: RunEnd) -> None:
        """Send the end of a text; a short silence before it if it had nothing to speak."""
        run = end.run
        if run.is_abandoned:
            return
        if not run.is_started:
            await self.sound(run, run.config.silence())
        await self.send("conversation.item.speech.completed", is_last_result=True)

    async def failed(self, run: Run, error: ServingError) -> None:
        """Send the error of an utterance, and speak no more of its text."""
        run.is_abandoned = True
        await self.send_error(error)
