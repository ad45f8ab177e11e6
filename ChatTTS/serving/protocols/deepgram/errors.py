"""Errors and keys as Deepgram's clients expect them."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse

from ...errors import ServingError

INTERFACE = "deepgram"
"""The name of this interface in logs."""
_SCHEME = "token "
_SUBPROTOCOLS = ("token", "bearer")


def error_code(error: ServingError) -> str:
    """Return an error's code in Deepgram's capitals."""
    return "INVALID_AUTH" if error.status == 401 else error.code.upper()


def error_response(error: ServingError) -> JSONResponse:
    """Return the response to a request that failed with ``error``."""
    headers = {"dg-error": error_code(error), **error.retry_headers}
    body = {"err_code": error_code(error), "err_msg": str(error)}
    return JSONResponse(body, error.status, headers)


def key_of(headers: Mapping[str, str]) -> str | None:
    """Return the API key that a request's headers give."""
    given = headers.get("authorization")
    if given is None:
        return _subprotocol_key(headers)
    return given[len(_SCHEME) :] if given.lower().startswith(_SCHEME) else given


def subprotocol_of(headers: Mapping[str, str]) -> str | None:
    """Return the subprotocol that a handshake with a key in it is answered with."""
    name = headers.get("sec-websocket-protocol", "").partition(",")[0].strip()
    return name if name.lower() in _SUBPROTOCOLS else None


def _subprotocol_key(headers: Mapping[str, str]) -> str | None:
    if subprotocol_of(headers) is None:
        return None
    return headers["sec-websocket-protocol"].partition(",")[2].strip() or None
