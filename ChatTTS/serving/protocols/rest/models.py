"""The list of models: one model, under several names."""

from __future__ import annotations

from fastapi import APIRouter

from .answer_schemas import (
    ERRORS,
    NOT_FOUND,
    ModelInfo,
    ModelList,
    SpeechModel,
    SpeechModels,
)
from .errors import ModelNotFoundError

_MODELS = ("chattts", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")
_OWNER = "chattts"
# Clients sort by this field; the model's real date is not known.
_CREATED = 0


def model_routes() -> APIRouter:
    """Return the routes of OpenAI's list, of one model, and of the speech models."""
    router = APIRouter(tags=["models"])

    @router.get(
        "/v1/models",
        summary="List the models",
        operation_id="listModels",
        response_model=ModelList,
        responses=ERRORS,
    )
    async def list_models() -> ModelList:
        return ModelList(data=[_info(name) for name in _MODELS])

    @router.get(
        "/v1/models/{model}",
        summary="One model",
        operation_id="retrieveModel",
        response_model=ModelInfo,
        responses=ERRORS | NOT_FOUND,
    )
    async def one_model(model: str) -> ModelInfo:
        """Requests for speech may name any model: all names are this one."""
        if model not in _MODELS:
            raise ModelNotFoundError(
                f"the model {model[:80]!r} does not exist; GET /v1/models lists all models",
                param="model",
            )
        return _info(model)

    @router.get(
        "/v1/audio/models",
        summary="List the speech models",
        operation_id="listSpeechModels",
        response_model=SpeechModels,
        responses=ERRORS,
    )
    async def list_speech_models() -> SpeechModels:
        return SpeechModels(models=[SpeechModel(id=name) for name in _MODELS])

    return router


def _info(name: str) -> ModelInfo:
    return ModelInfo(id=name, created=_CREATED, owned_by=_OWNER)
