"""Routes that clients of Kokoro-FastAPI use beside captioned speech: blends of voices, a test."""

from __future__ import annotations

import io
from functools import partial
from typing import Annotated, Any

import torch
from fastapi import APIRouter, Body
from starlette.responses import Response

from ....model.speaker import Speaker
from ....voices.blends import MOST_PARTS
from ...errors import BadRequestError, as_serving_error
from ...speech.service import SpeechService
from .answer_schemas import ERRORS, Health

_TENSOR = "application/octet-stream"
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The blend, as a file of torch with a tensor of float32.",
        "content": {_TENSOR: {"schema": {"type": "string", "format": "binary"}}},
    }
}


def kokoro_routes(service: SpeechService) -> APIRouter:
    """Return the routes of blends and of the test."""
    router = APIRouter(tags=["voices"])

    @router.get(
        "/v1/test",
        summary="The server answers",
        operation_id="test",
        response_model=Health,
        responses=ERRORS,
    )
    async def test() -> Health:
        return Health(model="loaded" if service.model.is_loaded else "unloaded")

    @router.post(
        "/v1/audio/voices/combine",
        summary="Blend voices",
        operation_id="combineVoices",
        response_class=Response,
        responses=_FILE | ERRORS,
    )
    async def combine(
        voices: Annotated[
            str | list[str], Body(examples=["clara+edith", "clara(2)+edith(1)", ["clara", "edith"]])
        ],
    ) -> Response:
        """Speak with a blend by giving the same text as the voice of a request. The file is for
        `chattts say --voice FILE.pt`."""
        named = [voices] if isinstance(voices, str) else voices
        if not 0 < len(named) <= MOST_PARTS or not all(name.strip() for name in named):
            raise BadRequestError(f"give 1 to {MOST_PARTS} voices to blend", param="voices")
        data = await service.in_thread(partial(_combined, service, "+".join(named)))
        headers = {
            "content-disposition": "attachment; filename=voice.pt",
            "cache-control": "no-cache",
        }
        return Response(data, headers=headers, media_type=_TENSOR)

    return router


def _combined(service: SpeechService, blend: str) -> bytes:
    """Return the file of a blend.

    Raises:
        ServingError: a voice is unknown, or cannot be blended.
    """
    try:
        fields: dict[str, Any] = service.voices.find(blend, is_strict=True).parameters
        if "spk_emb" not in fields:
            raise BadRequestError("a voice made from a recording cannot be blended", param="voices")
        speaker = Speaker(service.model.config.gpt.hidden_size, "", torch.device("cpu"))
        vector = torch.from_numpy(speaker.vector(fields["spk_emb"]))
    except Exception as error:
        raise as_serving_error(error) from error
    out = io.BytesIO()
    torch.save(vector, out)
    return out.getvalue()
