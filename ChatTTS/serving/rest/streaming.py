"""Answers that are speech: as it comes, as events, or whole."""

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
from ..encoding import Encoder, Format, encoder
from ..errors import as_serving_error
from ..request_logs import log_request
from ..requests import SpeechRequest
from ..service import SpeechService
from ..speech import Speech

_SAMPLES_PER_FRAME = int(SAMPLE_RATE / FRAMES_PER_SECOND)


@dataclass(frozen=True)
class OutputOptions:
    """How speech is to be sent.

    Attributes:
        format: see there.
        sample_rate: that is asked for; the format may take another one.
        is_streamed: whether it is sent while it comes.
        as_events: as server-sent events.
    """

    format: Format
    sample_rate: int = SAMPLE_RATE
    is_streamed: bool = True
    as_events: bool = False


class UsageCounter:
    """What was spoken, for the usage at the end."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._samples: Counter[int] = Counter()

    def add(self, piece: Piece) -> None:
        """A piece was given."""
        self._texts[piece.utterance] = piece.text
        self._samples[piece.utterance] += len(piece.samples)

    def total(self, tokenizer: Tokenizer) -> dict[str, int]:
        """Tokens of the text as it was spoken, and frames."""
        read = sum(len(tokenizer.ids(text)) for text in self._texts.values())
        # The last frame of an utterance gives less than a whole frame's samples.
        frames = sum(-(-samples // _SAMPLES_PER_FRAME) for samples in self._samples.values())
        return {"input_tokens": read, "output_tokens": frames, "total_tokens": read + frames}


@asynccontextmanager
async def spoken(
    service: SpeechService, request: SpeechRequest, state: dict[str, Any]
) -> AsyncIterator[Speech]:
    """A request that has its turn; it is logged at the end.

    Args:
        state: of the HTTP request; says afterwards whether the service counted this one.

    Raises:
        ServingError: it cannot be taken.
    """
    speech = service.speak(request)
    try:
        async with speech:
            yield speech
    finally:
        if speech.record.latency is not None:
            state["taken"] = True
            log_request(speech.record, "rest", with_text=service.settings.log_texts)


async def make_encoder(
    service: SpeechService, request: SpeechRequest, output: OutputOptions
) -> Encoder:
    """The encoder of an answer."""
    return await service.in_thread(
        partial(encoder, output.format, output.sample_rate, request.speed)
    )


async def encoded(
    service: SpeechService, speech: Speech, encoder: Encoder, usage: UsageCounter
) -> AsyncGenerator[bytes, None]:
    """The bytes of all pieces, some of which may be none; the first come with the first sound.

    Args:
        usage: told of every piece.

    Raises:
        ServingError: it failed, or did not come to its end.
    """
    async for piece in speech:
        usage.add(piece)
        yield await service.in_thread(partial(encoder.push, piece.samples))
    speech.check_complete()
    yield await service.in_thread(encoder.finish)


async def whole(
    service: SpeechService, speech: Speech, encoder: Encoder, usage: UsageCounter
) -> bytes:
    """All bytes of a file, which unlike those of a stream tell their length."""
    parts = [part async for part in encoded(service, speech, encoder, usage)]
    return await service.in_thread(lambda: encoder.as_file(b"".join(parts)))


class SpeechResponse(Response):
    """Waits for its turn, and answers with speech.

    Errors before the first sound are raised, before anything is sent. Those that come later leave
    the answer unfinished, or are an event.

    Args:
        service: who speaks.
        request: what.
        output: how it is sent.
    """

    def __init__(
        self, service: SpeechService, request: SpeechRequest, output: OutputOptions
    ) -> None:
        super().__init__()
        self._service, self._request, self._output = service, request, output

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        service, request = self._service, self._request
        encoder = await make_encoder(service, request, self._output)
        usage = UsageCounter()
        # The last of an answer is sent when its place in the queue is free again.
        if not self._output.is_streamed:
            async with spoken(service, request, scope["state"]) as speech:
                data = await whole(service, speech, encoder, usage)
            headers = self._named(encoder) | {"x-finish-reason": speech.finish_reason or ""}
            answer = Response(data, headers=headers, media_type=encoder.format.media_type)
            await answer(scope, receive, send)
            return
        async with (
            spoken(service, request, scope["state"]) as speech,
            aclosing(encoded(service, speech, encoder, usage)) as parts,
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
        headers = self._named(encoder) | {
            "content-type": "text/event-stream" if self._output.as_events else kind
        }
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    def _named(self, encoder: Encoder) -> dict[str, str]:
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
