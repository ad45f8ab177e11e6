"""The parts of every HTTP interface's answers: speech that is spoken and encoded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from starlette.datastructures import State
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from ...config.mark import Mark
from ...errors import ChatTTSError
from ...pipeline.results import Fault, Piece, Word
from ..encoding import Encoder
from ..errors import ServingError, as_serving_error
from ..requests.request import SpeechRequest, new_seed
from ..speech.config import RunConfig
from ..speech.service import SpeechService
from ..speech.speech import Speech
from .disclosure import disclosure_headers


@dataclass(frozen=True)
class EncodedPiece:
    """The parts of a piece that are sent.

    Attributes:
        data: encoded sound; may be empty.
        words: those of the piece, where their times were asked for.
        faults: those of the piece, with a guard.
    """

    data: bytes
    words: tuple[Word, ...] = ()
    faults: tuple[Fault, ...] = ()


def speech_request(
    service: SpeechService,
    config: RunConfig,
    text: str,
    state: State,
    interface: str,
    *,
    is_whole: bool = False,
    **others: Any,
) -> SpeechRequest:
    """Return the request to speak a text that came as a whole.

    Args:
        config: its settings.
        state: of the HTTP request.
        interface: name of the protocol in logs.
        is_whole: whether nothing is sent before all is spoken.
        others: further fields of the request.

    Raises:
        BadRequestError: a field is wrong.
    """
    return config.request(
        text,
        new_seed() if config.seed is None else config.seed,
        guard=service.guard_of(None, is_whole=is_whole),
        client=state.client,
        request_id=state.request_id,
        interface=interface,
        **others,
    )


@asynccontextmanager
async def speaking(
    service: SpeechService, request: SpeechRequest, state: dict[str, Any]
) -> AsyncIterator[Speech]:
    """Enter the speech of a request, and note in its HTTP request whether it was counted.

    Args:
        state: state of the HTTP request; ``was_counted`` is set if the service counted the request.

    Raises:
        ServingError: see :class:`..speech.speech.Speech`.
    """
    speech = service.speak(request)
    try:
        async with speech:
            yield speech
    finally:
        if speech.was_counted:
            state["was_counted"] = True


async def encode_pieces(
    service: SpeechService,
    speech: Speech,
    encoder: Encoder,
    on_piece: Callable[[Piece], None] | None = None,
    *,
    volume: float = 1.0,
) -> AsyncGenerator[EncodedPiece, None]:
    """Yield each piece encoded, and then the last bytes of the encoder.

    If the header of the format has the length, and all is generated with the first piece, it is
    yielded as a whole file. So it is with a silence, and with results that were kept.

    Args:
        on_piece: called with each piece before it is encoded.
        volume: factor of the samples.

    Raises:
        ServingError: the generation failed or was aborted.
    """
    is_first, held = True, list[EncodedPiece]()
    async for piece in speech:
        if on_piece is not None:
            on_piece(piece)
        samples = piece.samples if volume == 1 else piece.samples * np.float32(volume)
        data = await _encoded(service, encoder, partial(encoder.push, samples), len(samples))
        encoded = EncodedPiece(data, piece.words, piece.faults)
        if held or (is_first and encoder.has_length and speech.is_generated(piece)):
            held.append(encoded)
        else:
            yield encoded
        is_first = False
    speech.check_complete()
    end = EncodedPiece(await _encoded(service, encoder, encoder.finish, 0))
    yield await service.in_thread(lambda: _joined([*held, end], encoder)) if held else end


async def _encoded(
    service: SpeechService, encoder: Encoder, encode: Callable[[], bytes], samples: int
) -> bytes:
    """Encode here where that is quick, and else in a thread."""
    if not encoder.is_quick(samples):
        return await service.in_thread(encode)
    await asyncio.sleep(0)  # others have their turn where all pieces are there already
    return encode()


async def encode_file(
    service: SpeechService, speech: Speech, encoder: Encoder, *, volume: float = 1.0
) -> EncodedPiece:
    """Return a whole file with all words; unlike a stream's, the file's header has its length."""
    parts = [part async for part in encode_pieces(service, speech, encoder, volume=volume)]
    return await service.in_thread(lambda: _joined(parts, encoder))


def _joined(parts: Sequence[EncodedPiece], encoder: Encoder) -> EncodedPiece:
    """Return all parts of a stream as a file."""
    return EncodedPiece(
        encoder.as_file(b"".join(part.data for part in parts)),
        tuple(word for part in parts for word in part.words),
        tuple(fault for part in parts for fault in part.faults),
    )


def error_response(error: ServingError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response to a request that failed, in the format of OpenAI's API."""
    own = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    more = {**(headers or {}), **error.retry_headers, **own}
    return JSONResponse({"error": error.as_json()}, error.status, more)


def left_out_headers(speech: Speech) -> dict[str, str]:
    """Return the header with what the voice cannot speak, percent-encoded; none if nothing is."""
    return {"x-left-out": speech.shown_left_out} if speech.left_out else {}


def voice_headers(speech: Speech) -> dict[str, str]:
    """Return the header with the voice that speaks; none where the checkpoint has no voice."""
    return {"x-voice": speech.shown_voice} if speech.voice_name else {}


UNBUFFERED = {"x-accel-buffering": "no", "cache-control": "no-cache"}
"""Headers of an answer that proxies must not hold back."""


async def send_part(part: bytes, send: Send) -> None:
    """Send bytes of a body that goes on; nothing where there are none."""
    if part:
        await send({"type": "http.response.body", "body": part, "more_body": True})


class Body:
    """The body of an answer with speech: here the sound itself.

    A subclass gives the sound another form.

    Attributes:
        media_type: of the body; ``None`` is that of the sound.
    """

    media_type: str | None = None

    def begin(self, speech: Speech) -> None:
        """Note what is spoken; called before all else."""

    def hear(self, piece: Piece) -> None:
        """Note a piece of a stream, before it is encoded."""

    def headers(self, speech: Speech) -> dict[str, str]:
        """Return headers of its own; called before the first bytes are sent."""
        return {}

    def part(self, piece: EncodedPiece) -> bytes:
        """Return what is sent of a piece; may be empty."""
        return piece.data

    @property
    def has_end(self) -> bool:
        """Return whether anything follows the last piece."""
        return type(self).end is not Body.end

    def end(self, speech: Speech) -> bytes:
        """Return what follows the last piece; called in a worker thread."""
        return b""

    def error(self, error: ServingError) -> bytes | None:
        """Return how the body tells an error after its beginning; ``None`` leaves it unfinished."""
        return None


class SpokenResponse(Response):
    """Waits for the turn of a request, and answers with its speech.

    Errors before the first sound are raised, and nothing has been sent then.

    Args:
        service: speaks the request.
        request: the text to speak.
        encoder: makes the encoder, with the server's mark.
        body: gives the sound its form.
        is_streamed: whether it is sent while it is generated.
        headers: of the answer, besides ``x-seed``, ``x-sample-rate``, ``x-voice`` and the one that
            says that speech is synthetic.
        volume: factor of the samples.
    """

    def __init__(
        self,
        service: SpeechService,
        request: SpeechRequest,
        encoder: Callable[[Mark | None], Encoder],
        body: Body,
        *,
        is_streamed: bool,
        headers: Mapping[str, str] | None = None,
        volume: float = 1.0,
    ) -> None:
        told = disclosure_headers(service.settings.mark)
        super().__init__(headers={**(headers or {}), **told, **UNBUFFERED})
        del self.headers["content-length"]
        self._service, self._request, self._volume = service, request, volume
        self._make_encoder, self._body, self._is_streamed = encoder, body, is_streamed
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        service, request, body = self._service, self._request, self._body
        mark = service.settings.mark
        encoder = self._make_encoder(mark)
        self.headers["content-type"] = body.media_type or encoder.media_type
        self.headers["x-sample-rate"] = str(encoder.sample_rate)
        self.headers["x-seed"] = str(request.seed)
        # The end of a response is sent after the request has freed its place in the queue.
        async with speaking(service, request, scope["state"]) as speech:
            body.begin(speech)
            if self._is_streamed:
                await self._stream(speech, encoder, send)
            else:
                whole = await encode_file(service, speech, encoder, volume=self._volume)
        if not self._is_streamed:
            data = await service.in_thread(lambda: body.part(whole) + body.end(speech))
            self.headers["content-length"] = str(len(data))
            await self._send(data, speech, send, is_last=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stream(self, speech: Speech, encoder: Encoder, send: Send) -> None:
        service, body = self._service, self._body
        encoded = encode_pieces(service, speech, encoder, body.hear, volume=self._volume)
        try:
            async with aclosing(encoded) as pieces:
                async for piece in pieces:
                    await self._send(body.part(piece), speech, send)
            end = await service.in_thread(lambda: body.end(speech)) if body.has_end else b""
            await self._send(end, speech, send, is_last=True)
        except ChatTTSError as error:
            told = body.error(as_serving_error(error)) if self._has_begun else None
            if told is None:
                raise
            await send_part(told, send)

    async def _send(
        self, data: bytes, speech: Speech, send: Send, *, is_last: bool = False
    ) -> None:
        """Send bytes of the body; the headers before the first of them, or at the end."""
        if not self._has_begun and (data or is_last):
            self._has_begun = True
            own = self._body.headers(speech)
            self.headers.update(voice_headers(speech) | left_out_headers(speech) | own)
            raw = self.raw_headers
            await send({"type": "http.response.start", "status": 200, "headers": raw})
        await send_part(data, send)
