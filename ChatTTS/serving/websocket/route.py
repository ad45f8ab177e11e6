"""The route of the sockets: which clients may connect, and how many at a time."""

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
from .send_queue import SocketClose
from .session import TRY_LATER, Session, close, host_of

PATH = "/v1/audio/speech/stream"


def add_to(
    app: FastAPI, service: SpeechService, authenticator: Authenticator, settings: Settings
) -> None:
    """Serve sockets on ``/v1/audio/speech/stream`` of ``app``."""
    sockets: Counter[str] = Counter()  # by client address
    pages = OriginPolicy(settings)

    def refusal_reason(host: str) -> str | None:
        """Return why one more socket is refused; ``None`` if it is not."""
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
            pages.check_name(websocket.headers)
            pages.check_socket(websocket.headers)
        except ForeignPageError as error:
            await deny(websocket, error)
            return
        await websocket.accept()
        host = host_of(websocket)
        reason = refusal_reason(host)
        if reason is not None:
            refusal = OverloadedError(reason)
            service.metrics.count_refusal(refusal)
            log_refusal(refusal, "websocket", client=host, address=PATH)
            await close(websocket, SocketClose(TRY_LATER, reason))
            return
        sockets[host] += 1
        try:
            await Session(websocket, service, authenticator).run()
        finally:
            sockets[host] -= 1
            if not sockets[host]:
                del sockets[host]

    async def not_found(websocket: WebSocket) -> None:
        await deny(websocket, NotFoundError(f"sockets are at {PATH}"))

    async def deny(websocket: WebSocket, error: ServingError) -> None:
        """Refuse the handshake by an HTTP response."""
        service.metrics.count_refusal(error)
        address = websocket.url.path
        log_refusal(error, "websocket", client=host_of(websocket), address=address)
        answer = JSONResponse({"error": error.as_json()}, error.status)
        await websocket.send_denial_response(answer)

    app.add_api_websocket_route(PATH, speak)
    app.add_api_websocket_route("/{anywhere:path}", not_found)
