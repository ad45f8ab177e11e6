"""The routes of speech, and how requests for this interface are recognised."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from fastapi import FastAPI, WebSocket
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Scope

from ...errors import ServingError
from ...http.auth import Authenticator
from ...http.bodies import read_body
from ...http.protocol import HttpProtocol, add_protocol
from ...http.responses import Body, EncodedPiece, SpokenResponse, speech_request
from ...live.gatekeeper import SocketGatekeeper
from ...live.session import host_of
from ...requests.request import SpeechRequest
from ...settings import Settings
from ...speech.service import SpeechService
from ...speech.speech import Speech
from .bodies import SpeechBody, as_floats
from .errors import INTERFACE, error_response, key_of
from .messages import Messages
from .session import Session
from .voices import voice_routes

_BYTES, _EVENTS, _SOCKET = "/tts/bytes", "/tts/sse", "/tts/websocket"
_VOICES = "/voices"


def add_to(
    app: FastAPI, service: SpeechService, authenticator: Authenticator, settings: Settings
) -> None:
    """Answer Cartesia's clients on ``app``."""
    gatekeeper = SocketGatekeeper.of(app, service, settings)

    async def spoken(request: Request, *, as_events: bool) -> Response:
        body = await read_body(request, SpeechBody)
        config = body.config(service.model.languages)
        if config.word_times:
            service.check_word_times("add_timestamps")
        asked = speech_request(service, config, body.transcript, request.state, INTERFACE)
        is_float = body.output_format.is_float
        form = EventBody(asked, body.context_id, is_float=is_float) if as_events else Body()
        if is_float and not as_events:
            form = FloatBody()
        return SpokenResponse(service, asked, config.encoder, form, is_streamed=True)

    async def live(websocket: WebSocket) -> None:
        async def begin() -> Session:
            query = websocket.query_params
            key = key_of(websocket.headers) or query.get("api_key") or query.get("access_token")
            return Session(websocket, service, authenticator.client(key, host_of(websocket)))

        await gatekeeper.admit(websocket, INTERFACE, begin, error_response=error_response)

    routes = [
        Route(_BYTES, partial(spoken, as_events=False), methods=["POST"]),
        Route(_EVENTS, partial(spoken, as_events=True), methods=["POST"]),
        WebSocketRoute(_SOCKET, live),
        *voice_routes(service),
    ]
    protocol = HttpProtocol(INTERFACE, _owns, routes, error_response, key_of)
    add_protocol(app, service, authenticator, settings, protocol)


def _owns(scope: Scope) -> bool:
    path: str = scope["path"]
    if scope["type"] == "websocket":
        return path == _SOCKET
    return path in (_BYTES, _EVENTS, _SOCKET, _VOICES) or path.startswith(f"{_VOICES}/")


class FloatBody(Body):
    """Samples as 32-bit floats."""

    media_type = "audio/pcm"

    def part(self, piece: EncodedPiece) -> bytes:
        """Return the samples of a piece."""
        return as_floats(piece.data)


class EventBody(Body):
    """Server-sent events: sound in base64, and words with their times.

    Args:
        request: the text.
        context_id: repeated in every event, if the client gave one.
        is_float: whether samples are sent as 32-bit floats.
    """

    media_type = "text/event-stream"

    def __init__(self, request: SpeechRequest, context_id: str | None, *, is_float: bool) -> None:
        self._request, self._messages = request, Messages(context_id, is_float=is_float)

    def begin(self, speech: Speech) -> None:
        """Note the text, whose words follow."""
        self._messages.begin(self._request.speed)
        self._messages.append(speech.request.text)

    def part(self, piece: EncodedPiece) -> bytes:
        """Return the events of a piece."""
        words = _event(self._messages.timestamps(piece.words)) if piece.words else b""
        return words + (_event(self._messages.chunk(piece.data)) if piece.data else b"")

    def end(self, speech: Speech) -> bytes:
        """Return the last event."""
        return _event(self._messages.done())

    def error(self, error: ServingError) -> bytes:
        """Return the event of an error."""
        return _event(self._messages.error(error, request_id=self._request.request_id))


def _event(message: dict[str, Any]) -> bytes:
    return f"event: {message['type']}\ndata: {json.dumps(message)}\n\n".encode()
