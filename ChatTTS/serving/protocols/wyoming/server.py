"""Listen for connections of Wyoming's clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from ...http.connections import Connection, Connections
from ...http.listener import accept_connections
from ...settings import Settings
from ...speech.service import SpeechService
from .session import Session


@asynccontextmanager
async def serve_wyoming(
    service: SpeechService, settings: Settings, bound: socket.socket, most: int
) -> AsyncIterator[None]:
    """Serve within this context; at its end, open connections are cut.

    Args:
        service: speaks.
        settings: limits. A connection without a request may be idle for ``idle_seconds``.
        bound: the socket of :func:`...http.listener.bind`; it is closed at the end.
        most: limit of open connections.

    Raises:
        ConfigError: another program has begun to listen there since the socket was bound.
    """
    limits = replace(settings.limits, head_seconds=settings.limits.idle_seconds)
    connections = Connections(
        replace(settings, limits=limits),
        most=most,
        closed=service.metrics.count_closed_connection,
    )
    sessions: set[asyncio.Task[None]] = set()

    def connect(connection: Connection) -> asyncio.Protocol:
        reader = asyncio.StreamReader(limit=settings.limits.message_bytes)

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            session = Session(service, connection, reader, writer)
            task = asyncio.create_task(session.run(), name="wyoming connection")
            sessions.add(task)
            task.add_done_callback(sessions.discard)

        return asyncio.StreamReaderProtocol(reader, begin)

    try:
        async with accept_connections(bound, connections, connect, None):
            yield
    finally:
        for task in sessions:
            task.cancel()
        if sessions:
            await asyncio.wait(sessions)
        connections.abort_all()
