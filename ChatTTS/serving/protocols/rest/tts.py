"""``/tts``: the simplest request, from a text to an audio file."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ...encoding import Format
from ...http.bodies import json_object
from ...http.disclosure import disclosure_headers
from ...http.middleware import FORM
from ...http.responses import speech_request
from ...speech.config import RunConfig
from ...speech.service import SpeechService
from .answer_schemas import ERRORS
from .body_schemas import PlainBody
from .errors import validated
from .head import is_head
from .openai_speech import FORMATS, audio_answer
from .request_parsing import INTERFACE
from .streaming import OutputOptions, speech_response

_FORM = ("application/x-www-form-urlencoded", FORM)
_JSON = "application/json"


def plain_routes(service: SpeechService) -> APIRouter:
    """Return the routes ``GET /tts`` and ``POST /tts``."""
    router = APIRouter(tags=["speech"])
    answer = audio_answer(FORMATS) | ERRORS

    async def speech(body: PlainBody, request: Request) -> Response:
        if is_head(request.scope):  # players ask for the type before they ask for the sound
            told = disclosure_headers(service.settings.mark)
            head = Response(headers=told, media_type=Format.parse(body.format).media_type)
            del head.headers["content-length"]  # it is not known
            return head
        config = RunConfig.of(body.request_fields())
        asked = speech_request(
            service, config, body.text, request.state, INTERFACE, is_whole=not body.stream
        )
        sent = OutputOptions(Format.parse(body.format), is_streamed=body.stream)
        return speech_response(service, asked, sent)

    @router.get(
        "/tts",
        summary="Speak a text from the address",
        operation_id="getPlainSpeech",
        response_class=Response,
        responses=answer,
    )
    async def get_plain(body: Annotated[PlainBody, Query()], request: Request) -> Response:
        """``curl 'http://127.0.0.1:8000/tts?text=Hello' -o hello.wav``"""
        return await speech(body, request)

    schema = PlainBody.model_json_schema()

    @router.post(
        "/tts",
        summary="Speak a text from a form",
        operation_id="createPlainSpeech",
        response_class=Response,
        responses=answer,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {kind: {"schema": schema} for kind in (_JSON, *_FORM)},
            }
        },
    )
    async def post_plain(request: Request) -> Response:
        """As ``GET``, with the fields in a form or in JSON."""
        return await speech(await _posted(request), request)

    return router


async def _posted(request: Request) -> PlainBody:
    """Return the fields of a request; those of the body replace those of the query.

    Raises:
        BadRequestError: the body or a field is invalid.
    """
    fields: dict[str, Any] = dict(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _FORM:
        async with request.form() as form:
            fields |= form
    elif await request.body():
        fields |= json_object(await request.body())
    return validated(fields, PlainBody)
