"""One connection: its events, and the speech that it asks for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, async_write_event
from wyoming.info import Describe
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeTextFormat,
)

from ...audio.pcm import to_int16
from ...audio.samples import SAMPLE_RATE
from ...pipeline.results import Piece
from ..connections import Connection
from ..errors import BadRequestError, DeadlineError, ServingError, as_serving_error
from ..live.text_stream import TextStream
from ..request_logs import log_failure, log_refusal, log_request
from ..requests import SpeechRequest, new_seed
from ..service import SpeechService
from .description import describe
from .events import read_event

_FORMAT: dict[str, int] = {"rate": SAMPLE_RATE, "width": 2, "channels": 1}
_LANGUAGES = ("en", "zh")
_INTERFACE = "wyoming"
_NOTHING = "-"  # a text with nothing to speak


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
        self._reader, self._writer = reader, writer
        self._speaking: asyncio.Task[None] | None = None
        self._stream: TextStream | None = None

    async def run(self) -> None:
        """Handle events until the client leaves, or an error is told; then close."""
        limits = self._service.settings.limits
        try:
            while (event := await read_event(self._reader, limits.message_bytes)) is not None:
                await self._handle(event)
        except Exception as error:
            await self._tell(error)
        finally:
            await self._stop_speaking()
            self._writer.close()

    # -- events ----------------------------------------------------------------------------

    async def _handle(self, event: Event) -> None:
        """Handle one event; unknown ones are dropped, as the protocol wants."""
        if Describe.is_type(event.type):
            info = await self._service.in_thread(lambda: describe(self._service))
            await self._write(info.event())
        elif Synthesize.is_type(event.type):
            # Within a stream, clients send the whole text again for servers without streams.
            if self._stream is None:
                request = self._request(event, _text(event))
                await self._begin(self._whole(request), is_stream=False)
        elif SynthesizeStart.is_type(event.type):
            if self._stream is not None:
                raise BadRequestError("synthesize-start came twice, without synthesize-stop")
            stream = TextStream(self._service, self._request(event), _INTERFACE)
            await self._begin(stream.pieces(), is_stream=True)
            self._stream = stream
        elif SynthesizeChunk.is_type(event.type):
            self._begun_stream().append(_text(event))
        elif SynthesizeStop.is_type(event.type):
            self._begun_stream().end()
            self._stream = None

    def _begun_stream(self) -> TextStream:
        if self._stream is None:
            raise BadRequestError("synthesize-start must come before the text of a stream")
        return self._stream

    def _request(self, event: Event, text: str = _NOTHING) -> SpeechRequest:
        """Return a request with the event's settings; those of a stream have no text yet."""
        voice = event.data.get("voice") or {}
        context = event.data.get("context") or {}
        if not (isinstance(voice, dict) and isinstance(context, dict)):
            raise BadRequestError("voice and context must be objects", param="voice")
        if event.data.get("text_format") == SynthesizeTextFormat.SSML.value:
            raise BadRequestError("SSML is not spoken here: send text", param="text_format")
        seed, language = context.get("seed"), _string(voice, "language")
        if seed is not None and type(seed) is not int:
            raise BadRequestError("seed must be a whole number", param="seed")
        return SpeechRequest(
            text if text.strip() else _NOTHING,
            voice=_string(voice, "name"),
            language=_language(language),
            seed=new_seed() if seed is None else seed,
            is_seeded=seed is not None,
            guard=self._service.guard_of(None, is_whole=False),
            may_be_silent=True,
            client=self._connection.host,
        )

    # -- speech ----------------------------------------------------------------------------

    async def _begin(self, speech: AsyncGenerator[Piece, None], *, is_stream: bool) -> None:
        """Speak in a task, after what is being spoken, so that further events can come."""
        if self._speaking is not None:
            await self._speaking
        self._speaking = asyncio.create_task(self._speak(speech, is_stream), name="wyoming")

    async def _speak(self, speech: AsyncGenerator[Piece, None], is_stream: bool) -> None:
        try:
            with self._connection.request() as is_whole:
                is_whole()
                async with aclosing(speech):
                    await self._send(speech)
                if is_stream:
                    await self._write(SynthesizeStopped().event())
        except Exception as error:
            await self._tell(error)
            self._writer.close()  # clients wait for sound, and not for errors

    async def _send(self, speech: AsyncGenerator[Piece, None]) -> None:
        has_begun = False
        async for piece in speech:
            if not has_begun:
                has_begun = True
                await self._write(AudioStart(**_FORMAT).event())
            audio = to_int16(piece.samples).tobytes()
            await self._write(AudioChunk(audio=audio, **_FORMAT).event())
        await self._write(AudioStop().event())

    async def _whole(self, request: SpeechRequest) -> AsyncGenerator[Piece, None]:
        speech = self._service.speak(request)
        try:
            async with speech:
                async for piece in speech:
                    yield piece
            speech.check_complete()
        finally:
            if speech.record.latency is not None:
                with_text = self._service.settings.log_texts
                log_request(speech.record, _INTERFACE, with_text=with_text)

    async def _stop_speaking(self) -> None:
        if self._speaking is not None:
            self._speaking.cancel()
            await asyncio.wait({self._speaking})

    # -- sending ---------------------------------------------------------------------------

    async def _write(self, event: Event) -> None:
        seconds = self._service.settings.limits.stalled_seconds
        try:
            await asyncio.wait_for(async_write_event(event, self._writer), seconds)
        except asyncio.TimeoutError:
            raise DeadlineError(f"nothing was taken for {seconds:g} s: read faster") from None

    async def _tell(self, error: Exception) -> None:
        """Log an error and tell the client, unless the client has left."""
        if isinstance(error, OSError):
            return
        refusal = as_serving_error(error)
        if type(refusal) is ServingError:
            log_failure("a request over Wyoming", refusal, with_text=False)
        self._service.metrics.count_refusal(refusal)
        log_refusal(refusal, _INTERFACE, client=self._connection.host)
        with contextlib.suppress(OSError, ServingError):
            await self._write(Error(text=str(refusal), code=refusal.code).event())


def _text(event: Event) -> str:
    text = event.data.get("text")
    if not isinstance(text, str):
        raise BadRequestError(f"{event.type} needs text, a string", param="text")
    return text


def _string(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"the voice's {name} must be a string", param="voice")
    return value or None


def _language(code: str | None) -> str | None:
    """Return ``en`` or ``zh`` of a code such as ``en_US``; ``None``, to detect it, for others."""
    primary = (code or "").replace("_", "-").partition("-")[0].lower()
    return primary if primary in _LANGUAGES else None
