"""The library's app over HTTP, with the rules of this server's own routes."""

from __future__ import annotations

from starlette.types import ASGIApp

from ...http.auth import Authenticator
from ...http.protocol import guarded
from ...http.responses import error_response
from ...observe.metrics import ServerMetrics
from ...settings import Settings
from .spoken import CLIENT


def guarded_app(app: ASGIApp, settings: Settings) -> ASGIApp:
    """Return an ASGI app that has the keys, the origins and the limits of the server's own routes.

    Args:
        app: the library's.
        settings: keys, allowed origins and limits.
    """
    return guarded(
        app,
        Authenticator(settings.api_keys),
        settings,
        ServerMetrics(),
        interface=CLIENT,
        error_response=error_response,
    )
