"""Tells a client what comes of its text, in Deepgram's messages."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from ....version import __version__
from ...errors import ServingError
from ...live.listener import Listener
from ...live.run import Run, RunEnd
from ...live.send_queue import ALL_SAID, SendQueue
from ...requests.request import new_request_id
from .errors import INTERFACE, error_code


class Sender(Listener):
    """Sends the messages of one socket.

    Args:
        queue: of the socket.
        voice: name of the voice, which is Deepgram's model.
    """

    interface = INTERFACE

    def __init__(self, queue: SendQueue, voice: str) -> None:
        self._queue, self._voice = queue, voice
        self._next_number = 0
        self._flushes: deque[int] = deque()  # those whose sound is not yet sent

    def expect_flush(self) -> None:
        """Note that ``Flushed`` is to follow the sound of the text so far."""
        self._flushes.append(self._take_number())

    async def send_metadata(self) -> None:
        """Send the first message."""
        request_id = new_request_id()
        await self._send(
            "Metadata",
            request_id=request_id,
            model_name=self._voice,
            model_version=__version__,
            model_uuid=request_id,
        )

    async def send_cleared(self) -> None:
        """Send that nothing of the text so far follows."""
        self._flushes.clear()
        await self._send("Cleared", sequence_id=self._take_number())

    async def send_warning(self, error: ServingError) -> None:
        """Send that a message had no effect."""
        await self._send("Warning", description=str(error), code=error_code(error))

    async def sound(self, run: Run, data: bytes) -> None:
        """Send sound as a binary frame."""
        await self._queue.put(data)

    async def run_ended(self, end: RunEnd) -> None:
        """Send ``Flushed``, where the client flushed."""
        if end.is_requested and self._flushes:
            await self._send("Flushed", sequence_id=self._flushes.popleft())

    async def context_ended(self) -> None:
        """Close the socket."""
        await self._queue.close(ALL_SAID)

    async def failed(self, run: Run, error: ServingError) -> None:
        """Send the error of an utterance."""
        await self._send("Error", description=str(error), code=error_code(error))

    async def _send(self, kind: str, **fields: Any) -> None:
        await self._queue.put(json.dumps({"type": kind, **fields}))

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1
