"""HTTP and WebSocket: uvicorn's protocol on connections that ``listener`` accepts."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..settings import Settings
from .connections import Connection, Connections
from .listener import accept_connections
from .paced_reading import PacedConnection, ReadingTurns

CLOSING_SECONDS = 2.0  # for the last answers to be sent, once all requests are over
_POLL_SECONDS = 0.01
# Of uvicorn: a WebSocket was refused by an HTTP response; a client stays when the server ends.
_NO_FAULTS = (
    "ASGI callable returned without completing handshake.",
    "Cancel %s running task(s), timeout graceful shutdown exceeded",
)
_SLASHES, _RAW_SLASHES = re.compile("//+"), re.compile(b"//+")
_STATE = "connection"  # key of the ASGI state


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers; ``serve`` installs its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_http(
    app: ASGIApp, settings: Settings, bound: socket.socket, connections: Connections
) -> AsyncIterator[None]:
    """Serve ``app`` within this context.

    Args:
        bound: the socket of :func:`.listener.bind`; it is closed at the end.
        connections: registers the connections.

    Raises:
        ConfigError: another program has begun to listen there since the socket was bound.
    """
    uvicorn_log = logging.getLogger("uvicorn.error")
    uvicorn_log.addFilter(_is_fault)
    config = _config(app, settings)
    server = _Uvicorn(config)
    # It has no sockets: connections are given to its protocol below.
    running = asyncio.create_task(server.serve(sockets=[]), name="http")
    try:
        while not server.started and not running.done():
            await asyncio.sleep(_POLL_SECONDS)
        if running.done():
            running.result()

        turns = ReadingTurns()

        def connect(connection: Connection) -> asyncio.Protocol:
            protocol = H11Protocol(
                config=config,
                server_state=server.server_state,
                app_state={_STATE: connection},
                _loop=asyncio.get_running_loop(),
            )
            return PacedConnection(protocol, turns)

        async with accept_connections(bound, connections, connect, config.ssl):
            yield
    finally:
        bound.close()
        connections.abort_idle()
        server.should_exit = True
        await running
        connections.abort_all()
        uvicorn_log.removeFilter(_is_fault)


def _is_fault(record: logging.LogRecord) -> bool:
    """Filter out what uvicorn calls an error: refused sockets, and clients that stay to the end."""
    told = record.exc_info
    is_cancelled = isinstance(told, tuple) and isinstance(told[1], asyncio.CancelledError)
    return not is_cancelled and record.msg not in _NO_FAULTS


def _config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    config = uvicorn.Config(
        ConnectionStateMiddleware(PathMiddleware(app)),
        # Of uvicorn's parsers the one that limits the size of a request's head.
        http=H11Protocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # uvicorn trusts 127.0.0.1 by default: any local program could name any client address.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        ws_max_size=settings.limits.message_bytes,
        # A ping waits behind audio that the client has not read yet, which may take minutes.
        ws_ping_timeout=settings.limits.idle_seconds,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=int(CLOSING_SECONDS),
    )
    config.load()
    return config


class PathMiddleware:
    """ASGI middleware that reads several slashes in an address as one.

    Programs join the base URL of their settings, which may end with a slash, with ``/v1/...``.

    Args:
        app: what the middleware calls.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if "//" in scope.get("path", ""):
            scope = {**scope, "path": _SLASHES.sub("/", scope["path"])}
            if "raw_path" in scope:
                scope["raw_path"] = _RAW_SLASHES.sub(b"/", scope["raw_path"])
        await self._app(scope, receive, send)


class ConnectionStateMiddleware:
    """ASGI middleware that notes for each connection whether a request is read or answered.

    Args:
        app: what the middleware calls.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        connection: Connection | None = scope.get("state", {}).pop(_STATE, None)
        if connection is None:
            await self._app(scope, receive, send)
            return
        with connection.request() as is_whole:
            if scope["type"] == "websocket":
                is_whole()

            async def received() -> Message:
                message = await receive()
                if not message.get("more_body", False):
                    is_whole()
                return message

            await self._app(scope, received, send)
