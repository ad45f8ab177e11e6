"""``POST /v1/audio/refine``: a text with breaks and laughs."""

from __future__ import annotations

from fastapi import APIRouter, Request

from ..requests import SpeechRequest
from ..service import SpeechService
from .request_parsing import Caller, generation_fields
from .schemas import ERRORS, RefineAnswer, RefineBody


def refine_routes(service: SpeechService) -> APIRouter:
    """The refine pass alone, at two addresses."""
    router = APIRouter(tags=["speech"])

    async def refine(body: RefineBody, request: Request) -> RefineAnswer:
        """Control tags are put into the text, so that it can be read and changed before it is
        spoken. A voice that did not learn to refine leaves the text as it is."""
        asked = SpeechRequest(body.input, **generation_fields(body, Caller.of(request)))
        utterances = await service.refine(asked, body.tags)
        return RefineAnswer(text="\n".join(utterances), utterances=utterances, seed=asked.seed)

    for path, name in (("/v1/audio/refine", "refineText"), ("/refine", "refine")):
        router.add_api_route(
            path,
            refine,
            methods=["POST"],
            summary="Refine a text",
            operation_id=name,
            response_model=RefineAnswer,
            responses=ERRORS,
        )
    return router
