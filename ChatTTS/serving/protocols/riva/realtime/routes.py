"""The routes: sessions and voices over HTTP, and the socket."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from typing import Any

from fastapi import FastAPI, Request, WebSocket

from .....languages import locale_of
from ....errors import NotFoundError
from ....http.auth import Authenticator
from ....live.gatekeeper import SocketGatekeeper
from ....live.session import host_of
from ....requests.request import new_request_id
from ....settings import Settings
from ....speech.service import SpeechService
from ..request_parsing import parse_configuration
from .sender import INTERFACE
from .session import RealtimeSession
from .settings import SessionSettings

_PROTOCOL, _TOKEN = "realtime", "realtime-token."
_TOKEN_SECONDS = 60.0
_MOST_TOKENS = 1000


class Tokens:
    """Secrets that open one socket each, for clients whose sockets send no key."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def new(self, client: str) -> tuple[str, float]:
        """Return a secret, and the seconds for which it is valid."""
        if len(self._clients) >= _MOST_TOKENS:
            self._clients.popitem(last=False)
        token = secrets.token_urlsafe(24)
        self._clients[token] = (client, time.monotonic() + _TOKEN_SECONDS)
        return token, _TOKEN_SECONDS

    def take(self, token: str) -> str | None:
        """Return the client of a secret, which is used up; ``None`` for one that is not valid."""
        client, until = self._clients.pop(token, ("", 0.0))
        return client if time.monotonic() < until else None


def add_to(
    app: FastAPI, service: SpeechService, authenticator: Authenticator, settings: Settings
) -> None:
    """Serve the realtime API on ``app``; other sockets are left to routes that are added later."""
    tokens, gatekeeper = Tokens(), SocketGatekeeper.of(app, service, settings)

    @app.get("/v1/audio/list_voices", include_in_schema=False)
    async def list_voices() -> dict[str, Any]:
        """List the voices by language, for Riva's realtime client."""
        infos = await service.in_thread(service.voices.without_aliases)
        own = service.model.config.defaults.language
        names = [info.id for info in infos]
        codes = [own] if own else service.model.languages
        return {locale_of(code): {"voices": names} for code in codes}

    @app.post("/v1/realtime/synthesis_sessions", include_in_schema=False)
    async def create_session(request: Request) -> dict[str, Any]:
        """Begin a session of Riva's realtime client, with a secret for its socket."""
        session: dict[str, Any] = {
            "id": new_request_id(),
            "object": "realtime.synthesis_session",
            **SessionSettings().as_json(),
            "client_secret": None,
        }
        if not authenticator.is_open:
            token, seconds = tokens.new(request.state.client)
            expires = round(time.time() + seconds)
            session["client_secret"] = {"value": token, "expires_at": expires}
        return session

    def client_of(websocket: WebSocket) -> str:
        """Return the client's name; raise AuthenticationError without a key or secret."""
        for protocol in websocket.scope.get("subprotocols", ()):
            if protocol.startswith(_TOKEN):
                client = tokens.take(protocol[len(_TOKEN) :])
                if client is not None:
                    return client
        return authenticator.client(websocket.headers.get("authorization"), host_of(websocket))

    @app.websocket("/v1/realtime")
    async def speak(websocket: WebSocket) -> None:
        async def begin() -> RealtimeSession:
            if websocket.query_params.get("intent", "synthesis") != "synthesis":
                raise NotFoundError(
                    "this server only does synthesis: connect with ?intent=synthesis"
                )
            client = client_of(websocket)
            return RealtimeSession(websocket, service, client, _initial(websocket))

        offered = websocket.scope.get("subprotocols", ())
        subprotocol = _PROTOCOL if _PROTOCOL in offered else None
        await gatekeeper.admit(websocket, INTERFACE, begin, subprotocol=subprotocol)


def _initial(websocket: WebSocket) -> SessionSettings:
    """Return the settings of a new socket: ``seed`` may be in its address.

    The client of nvidia-riva-client 2.28 cannot send its option for it, ``custom_configuration``.
    """
    seed = websocket.query_params.get("seed")
    given = {} if seed is None else parse_configuration({"seed": seed})
    return SessionSettings(configuration=tuple(given.items()))
