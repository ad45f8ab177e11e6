"""Responses with speech: streamed audio, server-sent events, a whole file, or a file in JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...audio.samples import SAMPLE_RATE
from ...errors import ChatTTSError
from ...model.tokenizer import Tokenizer
from ...pipeline.decode.schedules import FRAMES_PER_SECOND
from ...pipeline.results import Piece, Word
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
from ..encoding import Encoder, Format
from ..errors import as_serving_error
from ..requests import SpeechRequest
from ..service import SpeechService
from ..speech import Speech
from ..words import cue_fields, fault_fields, lexicon_fields, word_fields
from .schemas import TimedSpeech, TimedWord

_SAMPLES_PER_FRAME = int(SAMPLE_RATE / FRAMES_PER_SECOND)


@dataclass(frozen=True)
class OutputOptions:
    """Settings of sending speech.

    Attributes:
        format: audio format.
        sample_rate: requested rate in Hz; the format may need another one.
        is_streamed: whether to send audio while it is generated.
        as_events: whether to send it as server-sent events.
        as_json: whether to send the whole file in a JSON object, with its words.
    """

    format: Format
    sample_rate: int = SAMPLE_RATE
    is_streamed: bool = True
    as_events: bool = False
    as_json: bool = False


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


async def make_encoder(
    service: SpeechService, request: SpeechRequest, output: OutputOptions
) -> Encoder:
    """Return the encoder of a response."""
    return await service.in_thread(
        partial(Encoder, output.format, output.sample_rate, request.speed)
    )


def timed_words(words: Iterable[Word], speed: float) -> list[TimedWord]:
    """Return words as the schema shows them, with their times in the sound at this tempo."""
    return [TimedWord.model_validate(word_fields(word, speed)) for word in words]


def guard_fields(speech: Speech) -> dict[str, Any]:
    """Return what the guard found, as the schema shows it; nothing without a guard."""
    request = speech.request
    if request.guard is None:
        return {}
    faults = [fault_fields(fault, request.speed) for fault in speech.faults]
    return {"faults": faults, "retries": speech.record.retries}


def lexicon_uses(speech: Speech) -> dict[str, Any]:
    """Return where the lexicon was applied, as the schema shows it; nothing without one."""
    if not speech.request.lexicon.entries:
        return {}
    return {"lexicon": [lexicon_fields(use) for use in speech.lexicon_uses]}


def lexicon_headers(speech: Speech) -> dict[str, str]:
    """Return the header with the number of words that the lexicon replaced; none without one."""
    if not speech.request.lexicon.entries:
        return {}
    return {"x-lexicon": str(len(speech.lexicon_uses))}


def silence_headers(speech: Speech) -> dict[str, str]:
    """Return the header of a text with nothing to speak; none for others."""
    return {"x-silence": "nothing to speak"} if speech.is_silent else {}


def left_out_fields(speech: Speech) -> dict[str, Any]:
    """Return what the voice could not speak, as the schema shows it; nothing if that is nothing."""
    return {"left_out": list(speech.left_out)} if speech.left_out else {}


def model_name(service: SpeechService) -> str:
    """Return the name of the checkpoint as a header; any letters but those of Latin-1 are ``?``."""
    name = service.model.config.defaults.name or "ChatTTS"
    return name.encode("latin-1", "replace").decode("latin-1")


def warning_headers(speech: Speech) -> dict[str, str]:
    """Return the header with what was left out of SSML, a list in JSON; none if nothing was."""
    shown = speech.request.shown_warnings
    return {"x-warnings": json.dumps(shown)} if shown else {}  # of ASCII alone


def guard_headers(speech: Speech) -> dict[str, str]:
    """Return the headers of speech at its end; none without a guard."""
    if speech.request.guard is None:
        return {}
    return {"x-faults": str(len(speech.faults)), "x-retries": str(speech.record.retries)}


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
                whole = await encode_file(service, speech, encoder)
            kind = "application/json" if self._output.as_json else encoder.format.media_type
            body = whole.data
            if self._output.as_json:
                body = await service.in_thread(partial(self._as_json, whole, speech, encoder))
            headers = self._audio_headers(encoder, speech) | guard_headers(speech)
            headers["x-finish-reason"] = speech.finish_reason or ""
            await Response(body, headers=headers, media_type=kind)(scope, receive, send)
            return
        usage = UsageCounter()
        async with (
            speaking(service, request, scope["state"]) as speech,
            aclosing(encode_pieces(service, speech, encoder, usage.add)) as parts,
        ):
            first = await anext(parts)
            await self._start(encoder, speech, send)
            if self._output.as_events:
                await self._send_events(speech, first, parts, usage, send)
            else:
                await send_part(first.data, send)
                async for part in parts:
                    await send_part(part.data, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_events(
        self,
        speech: Speech,
        first: EncodedPiece,
        parts: AsyncIterator[EncodedPiece],
        usage: UsageCounter,
        send: Send,
    ) -> None:
        request, words = self._request, [*first.words]
        await self._send_delta(first, send)
        try:
            async for part in parts:
                words += part.words
                await self._send_delta(part, send)
        except ChatTTSError as error:
            answer = as_serving_error(error).as_json()
            await _send_event({"type": "error", "error": answer}, send)
            return
        count = partial(usage.total, self._service.model.tokenizer)
        done: dict[str, Any] = {
            "type": "speech.audio.done",
            "usage": await self._service.in_thread(count),
            "finish_reason": speech.finish_reason,
            **guard_fields(speech),
            **lexicon_uses(speech),
            **left_out_fields(speech),
        }
        if request.word_times:
            cues = partial(cue_fields, words, speech.request.text, request.speed)
            done["cues"] = await self._service.in_thread(cues)
        await _send_event(done, send)

    async def _send_delta(self, part: EncodedPiece, send: Send) -> None:
        if not (part.data or part.words or part.faults):
            return
        event: dict[str, Any] = {
            "type": "speech.audio.delta",
            "audio": to_base64(part.data),
        }
        speed = self._request.speed
        if self._request.word_times:
            event["words"] = [word_fields(word, speed) for word in part.words]
        if self._request.guard is not None:
            event["faults"] = [fault_fields(fault, speed) for fault in part.faults]
        await _send_event(event, send)

    def _as_json(self, whole: EncodedPiece, speech: Speech, encoder: Encoder) -> bytes:
        request = self._request
        answer = TimedSpeech.model_validate(
            {
                "audio": to_base64(whole.data),
                "format": encoder.format.value,
                "sample_rate": encoder.sample_rate,
                "seed": request.seed,
                "duration": round(speech.record.seconds / request.speed, 3),
                "finish_reason": speech.finish_reason,
                "words": timed_words(whole.words, request.speed),
                "cues": cue_fields(whole.words, speech.request.text, request.speed),
                **guard_fields(speech),
                **lexicon_uses(speech),
                **left_out_fields(speech),
            }
        )
        return answer.model_dump_json().encode()

    async def _start(self, encoder: Encoder, speech: Speech, send: Send) -> None:
        kind = encoder.format.media_type
        headers = self._audio_headers(encoder, speech) | {
            "content-type": "text/event-stream" if self._output.as_events else kind
        }
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    def _audio_headers(self, encoder: Encoder, speech: Speech) -> dict[str, str]:
        return {
            "x-sample-rate": str(encoder.sample_rate),
            "x-seed": str(self._request.seed),
            "x-accel-buffering": "no",
            "cache-control": "no-cache",
            "x-model": model_name(self._service),
            **voice_headers(speech),
            **lexicon_headers(speech),
            **silence_headers(speech),
            **left_out_headers(speech),
            **warning_headers(speech),
        }


async def send_event(event: str, send: Send) -> None:
    """Send a server-sent event whose data are a text of JSON."""
    await send_part(f"data: {event}\n\n".encode(), send)


async def _send_event(event: dict[str, Any], send: Send) -> None:
    await send_event(json.dumps(event), send)
