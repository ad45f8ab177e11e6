"""``POST /v1/audio/speech``, the route of OpenAI's speech API."""

from __future__ import annotations

from typing import Any, get_args

from fastapi import APIRouter, Request
from starlette.responses import Response

from ...encoding import Format
from ...speech.service import SpeechService
from .answer_schemas import ERRORS, NOT_FOUND, TimedSpeech
from .body_schemas import Sound, SpeechBody
from .long_bodies import long_body_route
from .request_parsing import Caller, output_options, speech_request
from .streaming import speech_response

_AUDIO = {"schema": {"type": "string", "format": "binary"}}
# OpenAPI 3.1 has no schema for a stream of events; few tools read that of 3.2. Tools check each
# event against this one.
_EVENTS = {
    "type": "object",
    "description": "Server-sent events; the data of each are JSON.",
    "properties": {"data": {"type": "string"}},
    "required": ["data"],
}


def audio_answer(formats: tuple[str, ...]) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of a response with audio."""
    kinds = {Format.parse(name).media_type: _AUDIO for name in formats}
    text = {"schema": {"type": "string"}}
    return {
        200: {
            "description": "The speech.",
            "content": kinds,
            "headers": {
                "x-request-id": text | {"description": "Id of this request, also in the log."},
                "x-sample-rate": text | {"description": "Samples per second."},
                "ai-disclosure": text | {"description": "Says that the speech is synthetic."},
                "x-model": text | {"description": "The true name of the model."},
                "x-voice": text | {"description": "The voice that speaks, percent-encoded."},
                "x-silence": text | {"description": "The text had nothing to speak."},
                "x-seed": text | {"description": "The seed that was used."},
                "x-lexicon": text | {"description": "Words that the lexicon replaced, with one."},
                "x-warnings": text | {"description": "What was left out of SSML, as JSON."},
                "x-faults": text | {"description": "Faults that the guard found; at the end."},
                "x-retries": text | {"description": "Sentences spoken again; at the end."},
            },
        }
    }


FORMATS: tuple[str, ...] = get_args(Sound)


def speech_routes(service: SpeechService) -> APIRouter:
    """Return the route of OpenAI's speech API."""
    router = APIRouter(tags=["speech"], route_class=long_body_route(service))
    answer = audio_answer(FORMATS)
    # With `timestamp_granularities`, and without `stream_format`.
    answer[200]["model"] = TimedSpeech
    answer[200]["content"]["text/event-stream"] = {
        "schema": _EVENTS,
        "example": 'data: {"type": "speech.audio.delta", "audio": "..."}\n\n',
    }

    @router.post(
        "/v1/audio/speech",
        summary="Speak a text",
        operation_id="createSpeech",
        response_class=Response,
        responses=answer | ERRORS | NOT_FOUND,
    )
    async def create_speech(body: SpeechBody, request: Request) -> Response:
        """The response is streamed while the text is being spoken. If its transfer is cut
        off, it is incomplete. With `timestamp_granularities` it is a JSON object at the end, or
        events with words."""
        as_events = body.stream_format == "sse"
        as_json = body.word_times and not as_events
        is_streamed = as_events or (body.stream and not as_json)
        asked = await speech_request(service, body, Caller.of(request), is_whole=not is_streamed)
        sent = output_options(body, is_streamed=is_streamed, as_events=as_events, as_json=as_json)
        return speech_response(service, asked, sent)

    return router
