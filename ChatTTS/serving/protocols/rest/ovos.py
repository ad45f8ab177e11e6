"""The addresses that Open Voice OS's plugin ``ovos-tts-plugin-server`` asks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from ....languages import find_language
from ...encoding import Format
from ...http.responses import speech_request
from ...speech.config import RunConfig
from ...speech.service import SpeechService
from .answer_schemas import ERRORS
from .body_schemas import Body
from .openai_speech import audio_answer
from .request_parsing import INTERFACE
from .streaming import OutputOptions, speech_response

_SEED = 0  # these requests have none, and assistants expect a sentence to sound as before


class OvosQuery(Body):
    """The settings of a text; ``lang`` is a code such as ``en-us``."""

    voice: str | None = None
    lang: str | None = Field(None, description="Of the text; unknown ones are detected from it.")


class OvosText(OvosQuery):
    """A text with its settings."""

    utterance: str = Field(min_length=1)


def ovos_routes(service: SpeechService) -> APIRouter:
    """Return the routes of the two versions of the protocol."""
    router = APIRouter(tags=["speech"])
    answer = audio_answer(("wav",)) | ERRORS

    def speech(text: str, query: OvosQuery, request: Request) -> Response:
        config = RunConfig(
            voice=query.voice,
            seed=_SEED,
            language=find_language(query.lang, service.model.languages),
        )
        asked = speech_request(
            service, config, text, request.state, INTERFACE, is_whole=True, may_be_silent=True
        )
        return speech_response(service, asked, OutputOptions(Format.WAV, is_streamed=False))

    @router.get(
        "/v2/synthesize",
        summary="Speak a text, for Open Voice OS",
        operation_id="getOvosSpeech",
        response_class=Response,
        responses=answer,
    )
    async def second(query: Annotated[OvosText, Query()], request: Request) -> Response:
        """The wav file of a text."""
        return speech(query.utterance, query, request)

    @router.get(
        "/synthesize/{utterance:path}",
        summary="Speak a text, for Open Voice OS's first protocol",
        operation_id="getFirstOvosSpeech",
        response_class=Response,
        responses=answer,
    )
    async def first(
        utterance: str, query: Annotated[OvosQuery, Query()], request: Request
    ) -> Response:
        """The wav file of a text."""
        return speech(utterance, query, request)

    return router
