"""``POST /dev/captioned_speech``: speech and its words' times, as Kokoro-FastAPI gives them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...pipeline.results import Word
from ..answers import (
    EncodedPiece,
    encode_file,
    encode_pieces,
    left_out_headers,
    send_part,
    speaking,
    voice_headers,
)
from ..base64_blocks import to_base64
from ..encoding import Format
from ..errors import BadRequestError
from ..requests import SpeechRequest, new_seed
from ..service import SpeechService
from ..speech import Speech
from .request_parsing import INTERFACE, Caller
from .schemas import ERRORS, NOT_FOUND, CaptionedBody, CaptionedSpeech, WordTimestamp
from .streaming import (
    OutputOptions,
    guard_headers,
    make_encoder,
    model_name,
    silence_headers,
    timed_words,
)

_LINES = "application/x-ndjson"  # Kokoro-FastAPI calls them application/json, which they are not
# Clients of Kokoro-FastAPI pass its codes of languages: the first letter of a voice's name.
_LANGUAGES = {"a": "en", "b": "en", "z": "zh"}
_MEDIA_TYPES = {Format.OPUS: "audio/opus"}  # its name there; the bytes are Opus in Ogg


def captioned_routes(service: SpeechService) -> APIRouter:
    """Return the route of captioned speech."""
    router = APIRouter(tags=["speech"])

    @router.post(
        "/dev/captioned_speech",
        summary="Speak a text and tell the times of its words",
        operation_id="createCaptionedSpeech",
        response_model=CaptionedSpeech,
        responses={
            200: {
                "description": "An object; with `stream` such objects, one a line.",
                "content": {_LINES: {"schema": {"type": "string"}}},
            }
        }
        | ERRORS
        | NOT_FOUND,
    )
    async def create_captioned(body: CaptionedBody, request: Request) -> Response:
        """For clients of Kokoro-FastAPI. With `stream` the response has a line with such an object
        for each piece of sound, and times count from the beginning of the speech."""
        caller = Caller.of(request)
        asked = SpeechRequest(
            body.input,
            voice=body.voice_name,
            speed=body.speed,
            seed=new_seed() if body.seed is None else body.seed,
            is_seeded=body.seed is not None,
            language=_language(body.lang_code),
            word_times=body.return_timestamps,
            guard=service.guard_of(None, is_whole=not body.stream),
            may_be_silent=True,
            client=caller.client,
            interface=INTERFACE,
            request_id=caller.request_id,
        )
        volume = 1.0 if body.volume_multiplier is None else body.volume_multiplier
        sent = CaptionedOutput(Format.parse(body.response_format), body.stream, volume)
        return CaptionedResponse(service, asked, sent)

    return router


def _language(code: str | None) -> str | None:
    """Return the language of a code of Kokoro-FastAPI; ``None`` detects it from the text.

    Raises:
        BadRequestError: the model does not speak it.
    """
    if not code:
        return None
    base = code.lower().partition("-")[0]
    language = _LANGUAGES.get(base, base)
    if language not in _LANGUAGES.values():
        raise BadRequestError("lang_code must be a, b or en, or z or zh", param="lang_code")
    return language


@dataclass(frozen=True)
class CaptionedOutput:
    """Settings of sending captioned speech.

    Attributes:
        format: audio format.
        is_streamed: whether to send a line for each piece, and not one object at the end.
        volume: factor of the samples.
    """

    format: Format
    is_streamed: bool
    volume: float


class CaptionedResponse(Response):
    """Waits for the turn of a request, and answers with its speech and the times of its words.

    Errors before the first sound are raised, and nothing has been sent then. Later errors leave
    the response unfinished.

    Args:
        service: speaks the request.
        request: the text to speak.
        output: how to send the speech.
    """

    def __init__(
        self, service: SpeechService, request: SpeechRequest, output: CaptionedOutput
    ) -> None:
        super().__init__(media_type=_LINES if output.is_streamed else "application/json")
        del self.headers["content-length"]
        self.headers["x-accel-buffering"] = "no"
        self.headers["cache-control"] = "no-cache"
        self.headers["x-seed"] = str(request.seed)
        self.headers["x-model"] = model_name(service)
        name = f"speech.{output.format.value}"
        self.headers["content-disposition"] = f"attachment; filename={name}"
        self._service, self._request, self._output = service, request, output

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        service, request, volume = self._service, self._request, self._output.volume
        encoder = await make_encoder(service, request, OutputOptions(self._output.format))
        # The end of a response is sent after the request has freed its place in the queue.
        async with speaking(service, request, scope["state"]) as speech:
            if self._output.is_streamed:
                pieces = encode_pieces(service, speech, encoder, volume=volume)
                async with aclosing(pieces):
                    await self._send_lines(speech, pieces, send)
            else:
                whole = await encode_file(service, speech, encoder, volume=volume)
                headers = voice_headers(speech) | guard_headers(speech) | silence_headers(speech)
                self.headers.update(headers | left_out_headers(speech))
        if not self._output.is_streamed:
            words = whole.words if request.word_times else None
            data = await service.in_thread(lambda: self._object(whole.data, words))
            self.headers["content-length"] = str(len(data))
            await self._start(send)
            await send_part(data, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_lines(
        self, speech: Speech, pieces: AsyncIterator[EncodedPiece], send: Send
    ) -> None:
        """Send a line for each piece that has sound, with the words that are known since."""
        has_begun = False
        words: list[Word] = []
        async for piece in pieces:
            headers = voice_headers(speech) | silence_headers(speech)
            self.headers.update(headers | left_out_headers(speech))
            words += piece.words
            if not piece.data:
                continue
            if not has_begun:
                await self._start(send)
                has_begun = True
            await send_part(self._object(piece.data, words) + b"\n", send)
            words = []
        if not has_begun:
            await self._start(send)
        if words:
            await send_part(self._object(b"", words) + b"\n", send)

    async def _start(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)

    def _object(self, data: bytes, words: Iterable[Word] | None) -> bytes:
        timestamps = None
        if words is not None:
            timestamps = [
                WordTimestamp(word=word.word, start_time=word.start, end_time=word.end)
                for word in timed_words(words, self._request.speed)
            ]
        format = self._output.format
        captioned = CaptionedSpeech(
            audio=to_base64(data),
            audio_format=_MEDIA_TYPES.get(format, format.media_type),
            timestamps=timestamps,
        )
        return captioned.model_dump_json().encode()
