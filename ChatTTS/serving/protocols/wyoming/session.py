"""One connection: its events, and the texts that are spoken for them."""

from __future__ import annotations

import asyncio
from typing import Any

from wyoming.event import Event
from wyoming.info import Describe
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
)

from ....languages import find_language
from ...errors import BadRequestError
from ...http.connections import Connection
from ...live.context import Context
from ...live.messages import text_of
from ...live.speech_queue import SpeechQueue
from ...speech.config import RunConfig
from ...speech.service import SpeechService
from .description import describe
from .events import read_event
from .sender import Sender


class Session:
    """Serves one connection.

    Args:
        service: speaks.
        connection: its entry among the connections.
        reader, writer: of the connection.
    """

    def __init__(
        self,
        service: SpeechService,
        connection: Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._service, self._connection = service, connection
        self._reader = reader
        self._sender = Sender(service, connection.host, writer)
        self._context = Context(
            service,
            RunConfig(),
            SpeechQueue(
                service,
                connection.host,
                self._sender,
                on_run_finished=lambda run: None,
                on_context_ended=_nothing,
                skips_silence=True,
            ),
        )
        self._is_in_stream = False
        self._busy: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Handle events until the client leaves, or an error is told; then close."""
        limits = self._service.settings.limits
        try:
            most, seconds = limits.message_bytes, limits.body_seconds
            while (event := await read_event(self._reader, most, seconds)) is not None:
                self._connection.expect_within(limits.idle_seconds)
                await self._handle(event)
                self._mark_busy()
                await asyncio.sleep(0)  # events that have come already are read without a pause
        except Exception as error:
            await self._sender.tell(error)
        finally:
            await self._context.cancel()
            if self._busy is not None:
                await asyncio.wait({self._busy})
            self._sender.close()

    async def _handle(self, event: Event) -> None:
        """Handle one event; unknown ones are dropped, as the protocol wants."""
        if Describe.is_type(event.type):
            info = await self._service.in_thread(lambda: describe(self._service))
            await self._sender.write(info.event())
        elif Synthesize.is_type(event.type):
            # Within a stream, clients send the whole text again for servers without streams.
            if not self._is_in_stream:
                text = text_of(event.data)
                self._context.configure(self._config(event), is_seed_new=True)
                if text.strip():
                    self._context.append_whole(text)
                self._end_text(is_stream=False)
        elif SynthesizeStart.is_type(event.type):
            if self._is_in_stream:
                raise BadRequestError(
                    "synthesize-start was sent twice without synthesize-stop in between"
                )
            self._context.configure(self._config(event), is_seed_new=True)
            self._is_in_stream = True
        elif SynthesizeChunk.is_type(event.type):
            self._check_stream()
            await self._context.append(text_of(event.data))
        elif SynthesizeStop.is_type(event.type):
            self._check_stream()
            self._is_in_stream = False
            self._end_text(is_stream=True)

    def _config(self, event: Event) -> RunConfig:
        """Return the settings of a text; a language that is not known is detected from the text.

        Raises:
            BadRequestError: a field cannot be used.
        """
        voice = event.data.get("voice") or {}
        context = event.data.get("context") or {}
        if not (isinstance(voice, dict) and isinstance(context, dict)):
            raise BadRequestError("voice and context must be objects", param="voice")
        seed = context.get("seed")
        if seed is not None and type(seed) is not int:
            raise BadRequestError("seed must be a whole number", param="seed")
        known = self._service.model.languages
        language = find_language(_string(voice, "language"), known)
        config = RunConfig(voice=_string(voice, "name"), language=language, seed=seed)
        config.check()
        return config

    def _check_stream(self) -> None:
        if not self._is_in_stream:
            raise BadRequestError("synthesize-start must come before the text of a stream")

    def _end_text(self, *, is_stream: bool) -> None:
        self._context.flush()
        self._sender.expect_end(is_stream=is_stream)

    def _mark_busy(self) -> None:
        """Let no time limit count while something is spoken; a stream without text is idle."""
        if self._context.is_active and (self._busy is None or self._busy.done()):
            self._busy = asyncio.create_task(self._until_idle(), name="wyoming speech")

    async def _until_idle(self) -> None:
        with self._connection.request() as is_whole:
            is_whole()
            await self._context.until_idle()


async def _nothing() -> None:
    """Do nothing: a context lasts as long as its connection."""


def _string(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"the voice's {name} must be a string", param="voice")
    return value or None
