"""The address of Deepgram's speech, over HTTP and WebSocket."""

from __future__ import annotations

import re
from functools import partial

from fastapi import FastAPI, WebSocket
from pydantic import ConfigDict
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Scope

from ...http.auth import Authenticator
from ...http.bodies import Fields, read_body
from ...http.protocol import HttpProtocol, add_protocol
from ...http.responses import Body, SpokenResponse, speech_request
from ...live.gatekeeper import SocketGatekeeper
from ...live.session import host_of
from ...settings import Settings
from ...speech.reading import with_voice_language
from ...speech.service import SpeechService
from .config import parse_query
from .errors import INTERFACE, error_response, key_of, subprotocol_of
from .session import Session

_PATH = "/v1/speak"
# A voice may be a blend with line breaks in it, or a speaker string of some thousand characters.
_UNPRINTABLE = re.compile("[^ -~]")
_MOST_NAME = 80


class SpeakBody(Fields):
    """The body of a request for speech."""

    model_config = ConfigDict(extra="ignore")

    text: str


def add_to(
    app: FastAPI, service: SpeechService, authenticator: Authenticator, settings: Settings
) -> None:
    """Answer Deepgram's clients on ``app``."""
    gatekeeper = SocketGatekeeper.of(app, service, settings)

    async def speak(request: Request) -> Response:
        config = parse_query(request.query_params, is_socket=False)
        body = await read_body(request, SpeakBody)
        asked = speech_request(service, config, body.text, request.state, INTERFACE)
        asked = await with_voice_language(service, asked)
        voice = config.voice or service.voices.default_of(asked.voice_language)
        headers = {
            "dg-request-id": asked.request_id,
            "dg-char-count": str(len(body.text)),
            "dg-model-name": _UNPRINTABLE.sub("?", voice or "")[:_MOST_NAME],
        }
        return SpokenResponse(
            service, asked, config.encoder, Body(), is_streamed=True, headers=headers
        )

    async def live(websocket: WebSocket) -> None:
        async def begin() -> Session:
            client = authenticator.client(key_of(websocket.headers), host_of(websocket))
            config = parse_query(websocket.query_params, is_socket=True)
            await service.in_thread(partial(service.voices.parameters, config.voice))
            return Session(websocket, service, client, config)

        await gatekeeper.admit(
            websocket,
            INTERFACE,
            begin,
            subprotocol=subprotocol_of(websocket.headers),
            error_response=error_response,
        )

    routes = [Route(_PATH, speak, methods=["POST"]), WebSocketRoute(_PATH, live)]
    protocol = HttpProtocol(INTERFACE, _owns, routes, error_response, key_of)
    add_protocol(app, service, authenticator, settings, protocol)


def _owns(scope: Scope) -> bool:
    return bool(scope["path"] == _PATH)
