"""``/v1/audio/tags``: the control tags that texts may have, by names for readers."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from ....text.tag_names import named_tags
from ...speech.service import SpeechService
from .answer_schemas import ERRORS, TagEntry, TagList


def tag_routes(service: SpeechService) -> APIRouter:
    """Return the route that lists the tags of the checkpoint."""
    router = APIRouter(tags=["voices"])
    tags = named_tags(service.model.tokenizer.control_tokens)
    answer = TagList(tags=[TagEntry.model_validate(asdict(tag)) for tag in tags])

    @router.get(
        "/v1/audio/tags",
        summary="List the control tags",
        operation_id="listTags",
        response_model=TagList,
        responses=ERRORS,
    )
    async def list_tags() -> TagList:
        """Texts may also have pauses such as `[pause:1.5s]`, which need no checkpoint."""
        return answer

    return router
