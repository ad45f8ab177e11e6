"""``/tts``: the simplest request, from a text to an audio file."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from ..encoding import Format
from ..errors import BadRequestError
from ..http_layers import FORM
from ..requests import SpeechRequest, new_seed
from ..service import SpeechService
from .errors import validation_error
from .head import is_head
from .request_parsing import Caller
from .schemas import ERRORS, PlainBody
from .speech import FORMATS, audio_answer
from .streaming import OutputOptions, SpeechResponse

_FORM = ("application/x-www-form-urlencoded", FORM)
_JSON = "application/json"


def plain_routes(service: SpeechService) -> APIRouter:
    """Return the routes ``GET /tts`` and ``POST /tts``."""
    router = APIRouter(tags=["speech"])
    answer = audio_answer(FORMATS) | ERRORS

    async def speech(body: PlainBody, request: Request) -> Response:
        caller = Caller.of(request)
        if is_head(request.scope):  # players ask for the type before they ask for the sound
            head = Response(media_type=Format.parse(body.format).media_type)
            del head.headers["content-length"]  # it is not known
            return head
        asked = SpeechRequest(
            body.text,
            voice=body.voice,
            speed=body.speed,
            seed=new_seed() if body.seed is None else body.seed,
            is_seeded=body.seed is not None,
            guard=service.guard_of(None, is_whole=not body.stream),
            client=caller.client,
            request_id=caller.request_id,
        )
        sent = OutputOptions(Format.parse(body.format), is_streamed=body.stream)
        return SpeechResponse(service, asked, sent)

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
        try:
            given = await request.json()
        except (ValueError, RecursionError) as error:
            raise BadRequestError("the body is not valid JSON") from error
        if not isinstance(given, dict):
            raise BadRequestError("the body must be a JSON object")
        fields |= given
    try:
        return PlainBody.model_validate(fields)
    except ValidationError as error:
        raise validation_error(error) from error
