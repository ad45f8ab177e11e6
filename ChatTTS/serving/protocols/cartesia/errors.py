"""Errors and keys as Cartesia's clients expect them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

from ...errors import ServingError

INTERFACE = "cartesia"
"""The name of this interface in logs."""


def error_fields(error: ServingError) -> dict[str, Any]:
    """Return the fields that tell an error."""
    return {
        "status_code": error.status,
        "error_code": error.code,
        "title": HTTPStatus(error.status).phrase,
        "message": str(error),
    }


def error_response(error: ServingError) -> JSONResponse:
    """Return the response to a request that failed with ``error``."""
    return JSONResponse(error_fields(error), error.status, error.retry_headers)


def key_of(headers: Mapping[str, str]) -> str | None:
    """Return the API key that a request's headers give."""
    return headers.get("x-api-key") or headers.get("authorization")
