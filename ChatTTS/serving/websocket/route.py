"""The route of the sockets: who may connect, and how many at a time."""

from __future__ import annotations

from fastapi import FastAPI, WebSocket

from ..auth import Gate
from ..errors import ForeignPageError, OverloadedError
from ..pages import Pages
from ..service import SpeechService
from ..settings import Settings
from .outbox import Ending
from .session import TRY_LATER, Session, close

PATH = "/v1/audio/speech/stream"


def add_to(app: FastAPI, service: SpeechService, gate: Gate, settings: Settings) -> None:
    """Serve sockets on ``/v1/audio/speech/stream`` of ``app``."""
    sockets: set[WebSocket] = set()
    pages = Pages(settings)

    async def speak(websocket: WebSocket) -> None:
        if not _may_connect(websocket, pages):
            await websocket.close()  # before it is accepted, this answers 403
            return
        await websocket.accept()
        reason = _reason_against(service, len(sockets))
        if reason is not None:
            service.measures.refused(OverloadedError(reason))
            await close(websocket, Ending(TRY_LATER, reason))
            return
        sockets.add(websocket)
        try:
            await Session(websocket, service, gate).run()
        finally:
            sockets.discard(websocket)

    app.add_api_websocket_route(PATH, speak)


def _reason_against(service: SpeechService, sockets: int) -> str | None:
    """Why there is no place for one more socket; ``None`` where there is."""
    if service.status.state == "draining":
        return "the server is shutting down"
    if sockets >= service.settings.limits.connections:
        return "too many sockets are open: try again later"
    return None


def _may_connect(websocket: WebSocket, pages: Pages) -> bool:
    try:
        pages.check_name(websocket.headers)
    except ForeignPageError:
        return False
    return pages.may_open_socket(websocket.headers)
