"""The library's app over HTTP, with the rules of this server's own routes."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ..auth import Authenticator
from ..errors import ServingError
from ..http_layers import AuthMiddleware, BodyMiddleware, ErrorMiddleware
from ..metrics import ServerMetrics
from ..origins import OriginPolicy
from ..settings import Settings
from .spoken import CLIENT

_MOST_PARTS = 10_000  # values of a message, besides the commas of its text


def guarded_app(app: ASGIApp, settings: Settings) -> ASGIApp:
    """Return an ASGI app that has the keys, the origins and the limits of the server's own routes.

    Args:
        app: the library's.
        settings: keys, allowed origins and limits.
    """
    limits = settings.limits
    app = BodyMiddleware(
        app,
        most=lambda path: limits.message_bytes,
        parts=lambda path: _MOST_PARTS + limits.characters,
        seconds=limits.body_seconds,
        patience=limits.stalled_seconds,
    )
    authenticator, origins = Authenticator(settings.api_keys), OriginPolicy(settings)
    app = AuthMiddleware(app, authenticator, lambda path: False, origins)
    return ErrorMiddleware(
        app,
        ServerMetrics(),
        interface=CLIENT,
        error_response=_error_response,
        with_text=settings.log_texts,
    )


def _error_response(error: ServingError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
    return JSONResponse({"error": error.as_json()}, error.status, headers)
