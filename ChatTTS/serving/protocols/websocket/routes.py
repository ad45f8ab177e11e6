"""The route of our sockets."""

from __future__ import annotations

from fastapi import FastAPI, WebSocket

from ...errors import NotFoundError
from ...http.auth import Authenticator
from ...live.gatekeeper import SocketGatekeeper
from ...settings import Settings
from ...speech.service import SpeechService
from .sender import INTERFACE
from .session import Session

PATH = "/v1/audio/speech/stream"


def add_to(
    app: FastAPI, service: SpeechService, authenticator: Authenticator, settings: Settings
) -> None:
    """Serve sockets on ``/v1/audio/speech/stream`` of ``app``."""
    gatekeeper = SocketGatekeeper.of(app, service, settings)

    async def speak(websocket: WebSocket) -> None:
        async def begin() -> Session:
            return Session(websocket, service, authenticator)

        await gatekeeper.admit(websocket, INTERFACE, begin)

    async def not_found(websocket: WebSocket) -> None:
        await gatekeeper.deny(
            websocket, INTERFACE, NotFoundError(f"WebSockets are served at {PATH}")
        )

    app.add_api_websocket_route(PATH, speak)
    app.add_api_websocket_route("/{anywhere:path}", not_found)
