"""Routes for operators: health, readiness, metrics and status."""

from __future__ import annotations

import base64

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from ....audio.marking import info_chunk
from ....config.mark import Mark, today
from ....version import __version__
from ...speech.service import SpeechService
from .answer_schemas import (
    Health,
    ModelState,
    Readiness,
    ServiceStatus,
)

PUBLIC = frozenset({"/health", "/v1/health", "/ready", "/metrics", "/v1/status"})
"""Paths that need no API key."""


def operation_routes(service: SpeechService) -> APIRouter:
    """Return the routes of health, readiness, metrics and status."""
    router = APIRouter(tags=["operations"])

    @router.get(
        "/health", summary="The process answers", operation_id="health", response_model=Health
    )
    @router.get("/v1/health", include_in_schema=False)
    async def health() -> Health:
        return Health(model=_model_state(service))

    @router.get(
        "/ready",
        summary="Whether requests are welcome",
        operation_id="ready",
        response_model=Readiness,
        responses={503: {"model": Readiness, "description": "Not now."}},
    )
    async def ready() -> JSONResponse:
        status = 200 if service.is_ready else 503
        told = {
            "status": service.state,
            "model": _model_state(service),
            "unrecorded": service.model.unrecorded,
        }
        return JSONResponse(told, status)

    @router.get(
        "/metrics",
        summary="Figures for Prometheus",
        operation_id="metrics",
        response_class=Response,
        responses={
            200: {
                "description": "Prometheus' text format.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            }
        },
    )
    async def metrics() -> Response:
        text = await service.in_thread(service.metrics.render)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    @router.get(
        "/v1/status",
        summary="How the queue stands",
        operation_id="status",
        response_model=ServiceStatus,
    )
    async def status() -> ServiceStatus:
        queue = service.admission.snapshot()
        return ServiceStatus.model_validate(
            {
                "state": service.state,
                "running": queue.running,
                "waiting": queue.waiting,
                "limit": service.settings.limits.running,
                "waiting_interactive": queue.waiting_interactive,
                "waiting_batch": queue.waiting_batch,
                "longest_wait": round(queue.longest_wait, 3),
                "word_times": service.gives_word_times,
                "max_characters": service.settings.limits.characters,
                "wav_mark": _wav_mark(service.settings.mark),
                "version": __version__,
            }
        )

    return router


def _wav_mark(mark: Mark | None) -> str:
    return "" if mark is None else base64.b64encode(info_chunk(mark.on(today()))).decode("ascii")


def _model_state(service: SpeechService) -> ModelState:
    return "loaded" if service.model.is_loaded else "unloaded"
