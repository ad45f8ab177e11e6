"""An HTTP interface with keys, errors and addresses of its own, on the app of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import BadRequestError, NotFoundError, ServingError
from ..observe.metrics import ServerMetrics
from ..settings import Settings
from ..speech.service import SpeechService
from .auth import Authenticator
from .middleware import AuthMiddleware, BodyMiddleware, ErrorMiddleware, bearer
from .origins import OriginPolicy

# A text may consist of commas.
_BASE_PARTS, _PARTS_PER_CHARACTER = 1000, 2


@dataclass(frozen=True)
class HttpProtocol:
    """An interface: its name, its requests, its routes, its errors and its keys.

    Attributes:
        interface: its name in logs.
        owns: returns whether a request (HTTP or WebSocket) is for it.
        routes: of HTTP and WebSocket.
        error_response: its answer to a request that failed.
        key_of: returns the API key that a request's headers give.
    """

    interface: str
    owns: Callable[[Scope], bool]
    routes: Sequence[BaseRoute]
    error_response: Callable[[ServingError], Response]
    key_of: Callable[[Mapping[str, str]], str | None]


def add_protocol(
    app: FastAPI,
    service: SpeechService,
    authenticator: Authenticator,
    settings: Settings,
    protocol: HttpProtocol,
) -> None:
    """Answer the requests of a protocol on ``app``, before its own routes."""

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        request.state.refusal = refusal = _refusal(error, request)
        return protocol.error_response(refusal)

    # Other errors pass through it to the layer that answers them.
    own: ASGIApp = ExceptionMiddleware(
        Router(list(protocol.routes)), handlers={HTTPException: on_http_error}
    )
    own = guarded(
        own,
        authenticator,
        settings,
        service.metrics,
        interface=protocol.interface,
        error_response=protocol.error_response,
        key_of=protocol.key_of,
    )
    if settings.cors_origins:
        own = CORSMiddleware(
            own,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["*"],
        )
    app.add_middleware(_Dispatch, own=own, owns=protocol.owns)


def guarded(
    app: ASGIApp,
    authenticator: Authenticator,
    settings: Settings,
    metrics: ServerMetrics,
    *,
    interface: str,
    error_response: Callable[[ServingError], Response],
    key_of: Callable[[Mapping[str, str]], str | None] = bearer,
) -> ASGIApp:
    """Return an app behind the keys, the origins and the limits that hold for all of its paths.

    Args:
        settings: allowed origins and limits.
        metrics: counts refusals.
        interface, error_response, key_of: as of :class:`HttpProtocol`.
    """
    limits = settings.limits
    app = BodyMiddleware(
        app,
        most=lambda path: limits.message_bytes,
        parts=lambda path: _BASE_PARTS + _PARTS_PER_CHARACTER * limits.characters,
        seconds=limits.body_seconds,
        patience=limits.stalled_seconds,
    )
    app = AuthMiddleware(app, authenticator, lambda path: False, OriginPolicy(settings), key_of)
    return ErrorMiddleware(
        app,
        metrics,
        interface=interface,
        error_response=error_response,
        with_text=settings.log_texts,
    )


class _Dispatch:
    """ASGI middleware that takes the requests of one protocol out."""

    def __init__(self, app: ASGIApp, own: ASGIApp, owns: Callable[[Scope], bool]) -> None:
        self._app, self._own, self._owns = app, own, owns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_own = scope["type"] in ("http", "websocket") and self._owns(scope)
        await (self._own if is_own else self._app)(scope, receive, send)


def _refusal(error: HTTPException, request: Request) -> ServingError:
    if error.status_code == 404:
        return NotFoundError("this server does not support this address of the protocol")
    answer = BadRequestError(f"{request.method} cannot be used here: {error.detail}")
    answer.status = error.status_code
    return answer
