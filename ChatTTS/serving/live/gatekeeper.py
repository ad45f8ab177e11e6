"""The gatekeeper of all sockets: which clients may connect, and how many at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, WebSocket
from starlette.responses import Response

from ...errors import ChatTTSError
from ..errors import OverloadedError, ServingError, as_serving_error
from ..http import responses as answers
from ..http.connections import is_shared
from ..http.origins import OriginPolicy
from ..observe.request_logs import log_refusal
from ..settings import Settings
from ..speech.service import SpeechService
from .send_queue import SocketClose
from .session import TRY_LATER, SocketSession, close, host_of


class SocketGatekeeper:
    """Lets sockets in; the sockets of all protocols count together.

    Args:
        settings: limits and allowed origins.
    """

    def __init__(self, service: SpeechService, settings: Settings) -> None:
        self._service, self._settings = service, settings
        self._pages = OriginPolicy(settings)
        self._sockets: Counter[str] = Counter()  # by client address

    @classmethod
    def of(cls, app: FastAPI, service: SpeechService, settings: Settings) -> SocketGatekeeper:
        """Return the gatekeeper of ``app``, which is made where it has none."""
        if not hasattr(app.state, "gatekeeper"):
            app.state.gatekeeper = cls(service, settings)
        gatekeeper = app.state.gatekeeper
        assert isinstance(gatekeeper, cls)
        return gatekeeper

    async def admit(
        self,
        websocket: WebSocket,
        interface: str,
        begin: Callable[[], Awaitable[SocketSession]],
        *,
        subprotocol: str | None = None,
        error_response: Callable[[ServingError], Response] | None = None,
    ) -> None:
        """Serve a socket until its end, unless a rule, its protocol or a limit forbids it.

        Args:
            interface: name of the protocol in logs.
            begin: returns the session of the socket, which is not yet accepted; its
                ``ChatTTSError`` refuses the handshake.
            subprotocol: what the handshake is answered with.
            error_response: the protocol's answer to a handshake that is refused.
        """
        try:
            self._pages.check_name(websocket.headers)
            self._pages.check_page(websocket.headers)
            session = await begin()
        except ChatTTSError as error:
            await self.deny(websocket, interface, as_serving_error(error), error_response)
            return
        await websocket.accept(subprotocol)
        host = host_of(websocket)
        reason = self._refusal_reason(host)
        if reason is not None:
            refusal = OverloadedError(reason)
            self._service.metrics.count_refusal(refusal)
            log_refusal(refusal, interface, client=host, address=websocket.url.path)
            await close(websocket, SocketClose(TRY_LATER, reason))
            return
        self._sockets[host] += 1
        try:
            await session.run()
        finally:
            self._sockets[host] -= 1
            if not self._sockets[host]:
                del self._sockets[host]

    async def deny(
        self,
        websocket: WebSocket,
        interface: str,
        error: ServingError,
        error_response: Callable[[ServingError], Response] | None = None,
    ) -> None:
        """Refuse the handshake by an HTTP response."""
        self._service.metrics.count_refusal(error)
        address = websocket.url.path
        log_refusal(error, interface, client=host_of(websocket), address=address)
        answer = (error_response or answers.error_response)(error)
        await websocket.send_denial_response(answer)

    def _refusal_reason(self, host: str) -> str | None:
        """Return why one more socket is refused; ``None`` if it is not."""
        limits = self._settings.limits
        if self._service.admission.draining:
            return "the server is shutting down"
        if self._sockets.total() >= limits.sockets:
            return "too many sockets are open: try again later"
        is_full = self._sockets[host] >= limits.connections_per_address
        if is_full and not is_shared(host, self._settings):
            return "too many sockets of this address are open: close one"
        return None
