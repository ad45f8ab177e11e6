"""Answers HTTP and WebSocket: uvicorn, on connections of our own keeping."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from .connections import Connection, Connections
from .listener import accept_connections
from .settings import Settings

CLOSING_SECONDS = 2.0  # for what is still to be sent, once all requests are over
_TICK_SECONDS = 0.01
_STATE = "connection"


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers: the server has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_http(
    app: ASGIApp, settings: Settings, bound: socket.socket, connections: Connections
) -> AsyncIterator[None]:
    """Serve ``app`` until the end of the block.

    Args:
        bound: see :func:`.listener.bind`; it is closed at the end.
        connections: counts those that come.

    Raises:
        ConfigError: another program listens there since the socket was bound.
    """
    noise = logging.getLogger("uvicorn.error")
    noise.addFilter(_is_worth_saying)
    config = _config(app, settings)
    server = _Uvicorn(config)
    # Without sockets: it answers the connections that it is given.
    running = asyncio.create_task(server.serve(sockets=[]), name="http")
    try:
        while not server.started and not running.done():
            await asyncio.sleep(_TICK_SECONDS)
        if running.done():
            running.result()

        def connect(connection: Connection) -> asyncio.Protocol:
            return H11Protocol(
                config=config,
                server_state=server.server_state,
                app_state={_STATE: connection},
                _loop=asyncio.get_running_loop(),
            )

        async with accept_connections(bound, connections, connect, config.ssl):
            yield
    finally:
        bound.close()
        connections.abort_idle()
        server.should_exit = True
        await running
        connections.abort_all()
        noise.removeFilter(_is_worth_saying)


def _is_worth_saying(record: logging.LogRecord) -> bool:
    """Not what uvicorn takes for a fault: a socket that was refused by an answer of HTTP."""
    return record.msg != "ASGI callable returned without completing handshake."


def _config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    config = uvicorn.Config(
        ConnectionStateMiddleware(app),
        # Of the parsers the one that bounds a request's head.
        http=H11Protocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Else every program on this machine could pass for another client.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        ws_max_size=settings.limits.message_bytes,
        # A ping waits behind the sound that a client has not read yet, which may be minutes of it.
        ws_ping_timeout=settings.limits.idle_seconds,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=int(CLOSING_SECONDS),
    )
    config.load()
    return config


class ConnectionStateMiddleware:
    """Notes of each connection whether its client owes a request, or the server an answer.

    Args:
        app: what answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
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
