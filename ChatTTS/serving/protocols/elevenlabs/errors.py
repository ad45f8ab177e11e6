"""Errors and keys as ElevenLabs' clients expect them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from ...errors import ServingError

INTERFACE = "elevenlabs"
"""The name of this interface in logs."""
_TYPES = {
    400: "validation_error",
    401: "authentication_error",
    403: "authorization_error",
    404: "not_found",
    413: "validation_error",
    422: "validation_error",
    429: "rate_limit_error",
}


def error_detail(error: ServingError) -> dict[str, Any]:
    """Return the ``detail`` of an error."""
    return {
        "type": _TYPES.get(error.status, "internal_error" if error.status >= 500 else "error"),
        "code": error.code,
        "status": error.code,
        "message": str(error),
        "param": error.param,
    }


def error_response(error: ServingError) -> JSONResponse:
    """Return the response to a request that failed with ``error``."""
    return JSONResponse({"detail": error_detail(error)}, error.status, error.retry_headers)


def key_of(headers: Mapping[str, str]) -> str | None:
    """Return the API key that a request's headers give."""
    return headers.get("xi-api-key") or headers.get("authorization")
