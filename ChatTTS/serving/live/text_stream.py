"""Speak a text that comes in parts, utterance by utterance, as the whole text would be spoken."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import replace

from ...pipeline.results import Piece
from ..errors import BadRequestError, RequestTooLargeError
from ..request_logs import log_request
from ..requests import SpeechRequest
from ..service import SpeechService
from ..speech import Speech, silence
from .text_buffer import TextBuffer


class TextStream:
    """A text that is still being written, and its speech.

    The samples are those of one request with the whole text. Each utterance is a request of its
    own in the queue, and is begun as soon as later text cannot change it.

    Args:
        service: speaks.
        template: the settings of all utterances; its text is not used.
        interface: its name in logs.

    Attributes:
        current: the utterance that is being spoken; ``None`` before the first.
        texts: the utterances that were begun.
    """

    def __init__(self, service: SpeechService, template: SpeechRequest, interface: str) -> None:
        self._service, self._template, self._interface = service, template, interface
        most = service.model.config.defaults.max_utterance_characters
        self._buffer = TextBuffer(most)
        self._utterances: deque[str] = deque()
        self._has_changed = asyncio.Event()
        self._is_ended = False
        self._number = 0
        self.current: Speech | None = None
        self.texts: list[str] = []

    def append(self, text: str) -> None:
        """Add text.

        Raises:
            BadRequestError: the stream has ended.
            RequestTooLargeError: more text waits than the server takes at a time.
        """
        if self._is_ended:
            raise BadRequestError("the text has ended: begin another one", param="text")
        waiting = self._buffer.waiting + sum(map(len, self._utterances)) + len(text)
        limit = self._service.settings.limits.characters
        if waiting > limit:
            raise RequestTooLargeError(
                f"{waiting} characters wait to be spoken; this server takes {limit}: send text "
                "more slowly",
                param="text",
            )
        self._put(self._buffer.push(text))

    def flush(self) -> None:
        """Speak all text that has come, complete or not."""
        self._put(self._buffer.flush())

    def end(self) -> None:
        """Flush; no text follows."""
        self._is_ended = True
        self.flush()

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Yield the speech until the stream ends; a short silence if it has nothing to speak.

        Raises:
            ServingError: as :class:`.speech.Speech`.
        """
        has_spoken = False
        with self._service.hold():
            while (text := await self._next()) is not None:
                async for piece in self._spoken(text, is_first=not has_spoken):
                    has_spoken = True
                    yield piece
        if not has_spoken:
            yield silence()

    def _put(self, utterances: list[str]) -> None:
        self._utterances.extend(utterances)
        self._has_changed.set()

    async def _next(self) -> str | None:
        while not self._utterances:
            if self._is_ended:
                return None
            self._has_changed.clear()
            await self._has_changed.wait()
        return self._utterances.popleft()

    async def _spoken(self, text: str, *, is_first: bool) -> AsyncGenerator[Piece, None]:
        template = self._template
        request = replace(
            template,
            text=text,
            request_id=f"{template.request_id}.{self._number}",
            first_utterance=self._number,
            low_latency=template.low_latency and is_first,
            continues=not is_first,
            may_be_silent=True,
        )
        self.current = speech = self._service.speak(request)
        self.texts.append(text)
        try:
            async with speech:
                self._number += 0 if speech.is_silent else speech.utterances
                async for piece in speech:
                    if not speech.is_silent:  # other utterances may have words
                        yield piece
            speech.check_complete()
        finally:
            if speech.record.latency is not None:
                with_text = self._service.settings.log_texts
                log_request(speech.record, self._interface, with_text=with_text)
