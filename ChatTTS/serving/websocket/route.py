"""The route of the sockets: who may connect, and how many at a time."""

from __future__ import annotations

from collections import Counter

from fastapi import FastAPI, WebSocket
from starlette.responses import JSONResponse

from ..auth import Authenticator
from ..connections import is_shared
from ..errors import ForeignPageError, NotFoundError, OverloadedError, ServingError
from ..origins import OriginPolicy
from ..request_logs import log_refusal
from ..service import SpeechService
from ..settings import Settings
from .outbox import Ending
from .session import TRY_LATER, Session, close

PATH = "/v1/audio/speech/stream"


def add_to(app: FastAPI, service: SpeechService, gate: Authenticator, settings: Settings) -> None:
    """Serve sockets on ``/v1/audio/speech/stream`` of ``app``."""
    sockets: Counter[str] = Counter()  # by the address of the client
    pages = OriginPolicy(settings)

    def reason_against(host: str) -> str | None:
        """Why there is no place for one more socket; ``None`` where there is."""
        limits = settings.limits
        if service.admission.draining:
            return "the server is shutting down"
        if sockets.total() >= limits.sockets:
            return "too many sockets are open: try again later"
        if sockets[host] >= limits.connections_per_address and not is_shared(host, settings):
            return "too many sockets of this address are open: close one"
        return None

    async def speak(websocket: WebSocket) -> None:
        try:
            _check_page(websocket, pages)
        except ForeignPageError as error:
            await deny(websocket, error)
            return
        await websocket.accept()
        host = _host(websocket)
        reason = reason_against(host)
        if reason is not None:
            refusal = OverloadedError(reason)
            service.metrics.count_refusal(refusal)
            log_refusal(refusal, "websocket", client=host, address=PATH)
            await close(websocket, Ending(TRY_LATER, reason))
            return
        sockets[host] += 1
        try:
            await Session(websocket, service, gate).run()
        finally:
            sockets[host] -= 1
            if not sockets[host]:
                del sockets[host]

    async def nowhere(websocket: WebSocket) -> None:
        await deny(websocket, NotFoundError(f"sockets are at {PATH}"))

    async def deny(websocket: WebSocket, error: ServingError) -> None:
        """Answer in HTTP, before the socket is one."""
        service.metrics.count_refusal(error)
        address = websocket.url.path
        log_refusal(error, "websocket", client=_host(websocket), address=address)
        answer = JSONResponse({"error": error.as_json()}, error.status)
        await websocket.send_denial_response(answer)

    app.add_api_websocket_route(PATH, speak)
    app.add_api_websocket_route("/{anywhere:path}", nowhere)


def _check_page(websocket: WebSocket, pages: OriginPolicy) -> None:
    pages.check_name(websocket.headers)
    if not pages.may_open_socket(websocket.headers):
        raise ForeignPageError(
            "pages of other hosts may not do this: name their origin in the server's settings"
        )


def _host(websocket: WebSocket) -> str:
    return websocket.client.host if websocket.client else ""
