"""``POST /v1/audio/refine``: the refine pass alone, which adds breaks and laughs to a text."""

from __future__ import annotations

from fastapi import APIRouter, Request

from ...requests.request import SpeechRequest
from ...speech.service import SpeechService
from .answer_schemas import ERRORS, RefineAnswer
from .body_schemas import RefineBody
from .request_parsing import Caller


def refine_routes(service: SpeechService) -> APIRouter:
    """Return the routes of the refine pass, at two paths."""
    router = APIRouter(tags=["speech"])

    async def refine(body: RefineBody, request: Request) -> RefineAnswer:
        """Inserts control tags into the text, so that it can be read and changed before it is
        spoken. A model that was not trained to refine leaves the text unchanged."""
        asked = SpeechRequest.of(body.input, body.request_fields(), **Caller.of(request).fields)
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
