"""Responses with speech: streamed audio, server-sent events, or a whole file."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...audio.samples import SAMPLE_RATE
from ...errors import ChatTTSError
from ...model.tokenizer import Tokenizer
from ...pipeline.results import Piece
from ...pipeline.schedules import FRAMES_PER_SECOND
from ..encoding import Encoder, Format
from ..errors import as_serving_error
from ..request_logs import log_request
from ..requests import SpeechRequest
from ..service import SpeechService
from ..speech import Speech

_SAMPLES_PER_FRAME = int(SAMPLE_RATE / FRAMES_PER_SECOND)


@dataclass(frozen=True)
class OutputOptions:
    """Settings of sending speech.

    Attributes:
        format: audio format.
        sample_rate: requested rate in Hz; the format may need another one.
        is_streamed: whether to send audio while it is generated.
        as_events: whether to send it as server-sent events.
    """

    format: Format
    sample_rate: int = SAMPLE_RATE
    is_streamed: bool = True
    as_events: bool = False


class UsageCounter:
    """Counts the tokens of a request, for the usage at its end."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._samples: Counter[int] = Counter()

    def add(self, piece: Piece) -> None:
        """Count a piece."""
        self._texts[piece.utterance] = piece.text
        self._samples[piece.utterance] += len(piece.samples)

    def total(self, tokenizer: Tokenizer) -> dict[str, int]:
        """Return the numbers of text tokens (input) and of generated frames (output)."""
        read = sum(len(tokenizer.ids(text)) for text in self._texts.values())
        # The last frame of an utterance has fewer samples than the others.
        frames = sum(-(-samples // _SAMPLES_PER_FRAME) for samples in self._samples.values())
        return {"input_tokens": read, "output_tokens": frames, "total_tokens": read + frames}


@asynccontextmanager
async def speaking(
    service: SpeechService, request: SpeechRequest, state: dict[str, Any]
) -> AsyncIterator[Speech]:
    """Enter the speech of a request, and log the request at the end.

    Args:
        state: state of the HTTP request; ``was_counted`` is set if the service counted the request.

    Raises:
        ServingError: see :class:`.speech.Speech`.
    """
    speech = service.speak(request)
    try:
        async with speech:
            yield speech
    finally:
        if speech.record.latency is not None:
            state["was_counted"] = True
            log_request(speech.record, "rest", with_text=service.settings.log_texts)


async def make_encoder(
    service: SpeechService, request: SpeechRequest, output: OutputOptions
) -> Encoder:
    """Return the encoder of a response."""
    return await service.in_thread(
        partial(Encoder, output.format, output.sample_rate, request.speed)
    )


async def encode_pieces(
    service: SpeechService, speech: Speech, encoder: Encoder, usage: UsageCounter | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the encoded bytes of each piece, and the last bytes of the encoder; some may be empty.

    Args:
        usage: counts the pieces, if it is given.

    Raises:
        ServingError: the generation failed or was aborted.
    """
    async for piece in speech:
        if usage is not None:
            usage.add(piece)
        yield await service.in_thread(partial(encoder.push, piece.samples))
    speech.check_complete()
    yield await service.in_thread(encoder.finish)


async def encode_file(service: SpeechService, speech: Speech, encoder: Encoder) -> bytes:
    """Return the bytes of a whole file; unlike those of a stream, its header has its length."""
    parts = [part async for part in encode_pieces(service, speech, encoder)]
    return await service.in_thread(lambda: encoder.as_file(b"".join(parts)))


class SpeechResponse(Response):
    """Waits for the turn of a request, and answers with its speech.

    Errors before the first audio are raised, and nothing has been sent then. Later errors are sent
    as an event, or leave the response unfinished.

    Args:
        service: speaks the request.
        request: the text to speak.
        output: how to send the speech.
    """

    def __init__(
        self, service: SpeechService, request: SpeechRequest, output: OutputOptions
    ) -> None:
        super().__init__()
        self._service, self._request, self._output = service, request, output

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        service, request = self._service, self._request
        encoder = await make_encoder(service, request, self._output)
        # The end of a response is sent after the request has freed its place in the queue.
        if not self._output.is_streamed:
            async with speaking(service, request, scope["state"]) as speech:
                data = await encode_file(service, speech, encoder)
            headers = self._audio_headers(encoder) | {"x-finish-reason": speech.finish_reason or ""}
            answer = Response(data, headers=headers, media_type=encoder.format.media_type)
            await answer(scope, receive, send)
            return
        usage = UsageCounter()
        async with (
            speaking(service, request, scope["state"]) as speech,
            aclosing(encode_pieces(service, speech, encoder, usage)) as parts,
        ):
            first = await anext(parts)
            await self._start(encoder, send)
            if self._output.as_events:
                await self._send_events(speech, first, parts, usage, send)
            else:
                await _send_part(first, send)
                async for part in parts:
                    await _send_part(part, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_events(
        self,
        speech: Speech,
        first: bytes,
        parts: AsyncIterator[bytes],
        usage: UsageCounter,
        send: Send,
    ) -> None:
        await _send_audio(first, send)
        try:
            async for part in parts:
                await _send_audio(part, send)
        except ChatTTSError as error:
            answer = as_serving_error(error).as_json()
            await _send_event({"type": "error", "error": answer}, send)
            return
        count = partial(usage.total, self._service.chat.tokenizer)
        done = {"type": "speech.audio.done", "usage": await self._service.in_thread(count)}
        await _send_event(done | {"finish_reason": speech.finish_reason}, send)

    async def _start(self, encoder: Encoder, send: Send) -> None:
        kind = encoder.format.media_type
        headers = self._audio_headers(encoder) | {
            "content-type": "text/event-stream" if self._output.as_events else kind
        }
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    def _audio_headers(self, encoder: Encoder) -> dict[str, str]:
        return {
            "x-sample-rate": str(encoder.sample_rate),
            "x-seed": str(self._request.seed),
            "x-accel-buffering": "no",
            "cache-control": "no-cache",
        }


async def _send_part(part: bytes, send: Send) -> None:
    if part:
        await send({"type": "http.response.body", "body": part, "more_body": True})


async def _send_audio(part: bytes, send: Send) -> None:
    if part:
        audio = base64.b64encode(part).decode("ascii")
        await _send_event({"type": "speech.audio.delta", "audio": audio}, send)


async def _send_event(event: dict[str, Any], send: Send) -> None:
    await _send_part(f"data: {json.dumps(event)}\n\n".encode(), send)
