"""Responses with speech: streamed audio, server-sent events, a whole file, or a file in JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ....audio.samples import SAMPLE_RATE
from ....config.mark import Mark
from ....model.tokenizer import Tokenizer
from ....pipeline.decode.schedules import FRAMES_PER_SECOND
from ....pipeline.results import Piece, Word
from ...encoding import Encoder, Format
from ...encoding.base64_blocks import to_base64
from ...errors import ServingError
from ...http.responses import UNBUFFERED, Body, EncodedPiece, SpokenResponse, send_part
from ...requests.request import SpeechRequest
from ...requests.words import DIGITS, cue_fields, fault_fields, lexicon_fields, word_fields
from ...speech.service import SpeechService
from ...speech.speech import Speech
from .answer_schemas import TimedSpeech, TimedWord
from .head import is_head

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

    def encoder(self, speed: float, mark: Mark | None = None) -> Encoder:
        """Return an encoder of speech at this tempo, with a mark if its header has a place."""
        return Encoder(self.format, self.sample_rate, speed, mark=mark)


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


def timed_words(words: Iterable[Word], speed: float) -> list[TimedWord]:
    """Return words as the schema shows them, with their times in the sound at this tempo."""
    return [TimedWord.model_validate(word_fields(word, speed)) for word in words]


def result_fields(speech: Speech) -> dict[str, Any]:
    """Return what the guard and the lexicon found and the voice left out, as the schema shows it.

    There is nothing of a guard or a lexicon that the request does not have.
    """
    request, fields = speech.request, dict[str, Any]()
    if request.guard is not None:
        fields["faults"] = [fault_fields(fault, request.speed) for fault in speech.faults]
        fields["retries"] = speech.record.retries
    if request.lexicon.entries:
        fields["lexicon"] = [lexicon_fields(use) for use in speech.lexicon_uses]
    if speech.left_out:
        fields["left_out"] = list(speech.left_out)
    return fields


def lexicon_headers(speech: Speech) -> dict[str, str]:
    """Return the header with the number of words that the lexicon replaced; none without one."""
    if not speech.request.lexicon.entries:
        return {}
    return {"x-lexicon": str(len(speech.lexicon_uses))}


def silence_headers(speech: Speech) -> dict[str, str]:
    """Return the header of a text with nothing to speak; none for others."""
    return {"x-silence": "nothing to speak"} if speech.is_silent else {}


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


def speech_response(
    service: SpeechService, request: SpeechRequest, output: OutputOptions
) -> SpokenResponse:
    """Return the response that speaks a request."""
    if output.as_events:
        body: RestBody = EventBody(service, request)
    elif output.as_json:
        body = JsonBody(service, request, output)
    else:
        body = RestBody(service, is_streamed=output.is_streamed)
    make_encoder = partial(output.encoder, request.speed)
    return SpokenResponse(service, request, make_encoder, body, is_streamed=output.is_streamed)


class RestBody(Body):
    """The sound itself, with headers that say what is known of the speech.

    Args:
        service: has the model.
        is_streamed: whether the headers are sent before the speech has ended.
    """

    def __init__(self, service: SpeechService, *, is_streamed: bool) -> None:
        self._service, self._is_streamed = service, is_streamed

    def headers(self, speech: Speech) -> dict[str, str]:
        """Return the model's name, and what is known of the speech."""
        headers = {
            "x-model": model_name(self._service),
            **lexicon_headers(speech),
            **silence_headers(speech),
            **warning_headers(speech),
        }
        if self._is_streamed:
            return headers
        return headers | guard_headers(speech) | {"x-finish-reason": speech.finish_reason or ""}


class EventBody(RestBody):
    """Server-sent events: sound in base64 with its words and faults, and the usage at the end."""

    media_type = "text/event-stream"

    def __init__(self, service: SpeechService, request: SpeechRequest) -> None:
        super().__init__(service, is_streamed=True)
        self._request, self._usage = request, UsageCounter()
        self._words: list[Word] = []

    def hear(self, piece: Piece) -> None:
        """Count the tokens of a piece."""
        self._usage.add(piece)

    def part(self, piece: EncodedPiece) -> bytes:
        """Return the event of a piece; nothing for one with nothing to tell."""
        if not (piece.data or piece.words or piece.faults):
            return b""
        self._words += piece.words
        event: dict[str, Any] = {"type": "speech.audio.delta", "audio": to_base64(piece.data)}
        speed = self._request.speed
        if self._request.word_times:
            event["words"] = [word_fields(word, speed) for word in piece.words]
        if self._request.guard is not None:
            event["faults"] = [fault_fields(fault, speed) for fault in piece.faults]
        return as_event(json.dumps(event))

    def end(self, speech: Speech) -> bytes:
        """Return the last event."""
        done: dict[str, Any] = {
            "type": "speech.audio.done",
            "usage": self._usage.total(self._service.model.tokenizer),
            "finish_reason": speech.finish_reason,
            **result_fields(speech),
        }
        if self._request.word_times:
            done["cues"] = cue_fields(self._words, speech.request.text, self._request.speed)
        return as_event(json.dumps(done))

    def error(self, error: ServingError) -> bytes:
        """Return the event of an error."""
        return as_event(json.dumps({"type": "error", "error": error.as_json()}))


class JsonBody(RestBody):
    """A JSON object with the whole file in base64, its words and its subtitles."""

    media_type = "application/json"

    def __init__(
        self, service: SpeechService, request: SpeechRequest, output: OutputOptions
    ) -> None:
        super().__init__(service, is_streamed=False)
        self._request, self._output = request, output
        self._whole = EncodedPiece(b"")

    def part(self, piece: EncodedPiece) -> bytes:
        """Keep the file."""
        self._whole = piece
        return b""

    def end(self, speech: Speech) -> bytes:
        """Return the object."""
        whole, speed, output = self._whole, self._request.speed, self._output
        answer = TimedSpeech.model_validate(
            {
                "audio": to_base64(whole.data),
                "format": output.format.value,
                "sample_rate": output.format.carried_rate(output.sample_rate),
                "seed": self._request.seed,
                "duration": round(speech.record.seconds / speed, DIGITS),
                "finish_reason": speech.finish_reason,
                "words": timed_words(whole.words, speed),
                "cues": cue_fields(whole.words, speech.request.text, speed),
                **result_fields(speech),
            }
        )
        return answer.model_dump_json().encode()


def as_event(data: str) -> bytes:
    """Return a server-sent event whose data are a text of JSON."""
    return f"data: {data}\n\n".encode()


class StreamedResponse(Response):
    """An answer that is sent while it is made.

    Args:
        media_type: of the body.
        parts: the body; it is closed with the answer, and never begun for ``HEAD``.
        headers: of the answer.
    """

    def __init__(
        self,
        media_type: str,
        parts: AsyncGenerator[bytes, None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(headers={**(headers or {}), **UNBUFFERED}, media_type=media_type)
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self._parts) as parts:
            while not is_head(scope) and (part := await anext(parts, None)) is not None:
                await send_part(part, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
