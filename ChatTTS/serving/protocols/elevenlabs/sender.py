"""Tells a client what comes of the text of one context, in ElevenLabs' messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ....pipeline.results import Word
from ...encoding.base64_blocks import to_base64
from ...errors import ServingError
from ...live.listener import Listener, Utterance
from ...live.run import Run, RunEnd
from ...live.send_queue import ALL_SAID, SendQueue, SocketClose
from ...live.session import closing_reason
from ...requests.characters import CharacterTimes, TimedCharacter
from .alignment import SocketAlignment
from .errors import INTERFACE

POLICY = 1008  # the closing code of ElevenLabs' errors


class ContextSender(Listener):
    """Sends the messages of one context.

    Args:
        queue: of the socket.
        context_id: goes into every message; ``None`` where there is none.
        alignment: makes the lists of characters.
        is_only: whether the socket is closed after the context's end or an error.
    """

    interface = INTERFACE

    def __init__(
        self,
        queue: SendQueue,
        context_id: str | None,
        alignment: SocketAlignment,
        *,
        is_only: bool,
    ) -> None:
        self._queue, self._context_id, self._alignment = queue, context_id, alignment
        self._is_only = is_only
        self._times = CharacterTimes(1.0)
        self._pending: list[TimedCharacter] = []
        self._text = ""
        self._offset = 0.0  # seconds of the runs before

    async def run_started(self, run: Run) -> None:
        """Begin to count times from 0."""
        self._times, self._text = CharacterTimes(run.config.speed), ""

    async def utterance_started(self, run: Run, utterance: Utterance) -> None:
        """Note the text whose words follow."""
        self._add_text(utterance.text)

    async def words_known(self, run: Run, words: Sequence[Word]) -> None:
        """Note characters, which go with the next sound."""
        self._pending += self._times.add(words)

    async def sound(self, run: Run, data: bytes) -> None:
        """Send sound, with the characters that have become known."""
        await self._send_sound(data)

    async def run_ended(self, end: RunEnd) -> None:
        """Send the characters that are left."""
        run = end.run
        if not run.is_started:
            return
        if run.config.word_times:
            # Clients join characters to words by the spaces between them, also from run to run.
            if not self._text[-1:].isspace():
                self._add_text(" ")
            self._pending += self._times.finish(run.seconds)
        if self._pending:
            await self._send_sound(b"")
        self._offset += run.seconds

    async def context_ended(self) -> None:
        """Send the final message; a socket with one context is closed then."""
        await self._send(audio=None, isFinal=True, alignment=None, normalizedAlignment=None)
        if self._is_only:
            await self._queue.close(ALL_SAID)

    async def failed(self, run: Run, error: ServingError) -> None:
        """Send the error of an utterance."""
        await self.send_error(error)

    async def send_error(self, error: ServingError) -> None:
        """Send an error; a socket with one context is closed then."""
        await self._send(message=str(error), error=error.code, code=POLICY)
        if self._is_only:
            await self._queue.close(SocketClose(POLICY, closing_reason(error)))

    async def _send_sound(self, data: bytes) -> None:
        alignment = self._alignment.of(self._pending, self._offset)
        self._pending = []
        await self._send(
            audio=to_base64(data),
            isFinal=None,
            alignment=alignment,
            normalizedAlignment=alignment,
        )

    async def _send(self, **fields: Any) -> None:
        name = {} if self._context_id is None else {"contextId": self._context_id}
        await self._queue.put(json.dumps({**fields, **name}))

    def _add_text(self, text: str) -> None:
        self._times.append(text)
        self._text += text
