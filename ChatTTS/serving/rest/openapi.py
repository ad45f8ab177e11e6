"""The OpenAPI schema, ``/openapi.json``."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

_ABOUT = """Text to speech. The routes under `/v1` are those of OpenAI's speech API, with more
fields; `/tts` is the plainest way. Live text goes over the WebSocket `/v1/audio/speech/stream`."""


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the schema of ``app``, which is made once."""
    if app.openapi_schema is None:
        app.openapi_schema = get_openapi(
            title=app.title, version=app.version, description=_ABOUT, routes=app.routes
        )
    return app.openapi_schema
