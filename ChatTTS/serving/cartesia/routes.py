"""The routes of speech, and how requests for this interface are recognised."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

from fastapi import FastAPI, WebSocket
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Scope

from ..answers import Body, EncodedPiece, SpokenResponse, speech_request
from ..auth import Authenticator
from ..base64_blocks import to_base64
from ..bodies import read_body
from ..errors import ServingError
from ..http_protocol import HttpProtocol, add_protocol
from ..live.door import SocketGatekeeper
from ..live.session import host_of
from ..requests import SpeechRequest
from ..service import SpeechService
from ..settings import Settings
from ..speech import Speech
from .bodies import SpeechBody, as_floats
from .errors import INTERFACE, error_fields, error_response, key_of
from .session import Session
from .voices import voice_routes
from .words import MarkedWords

_BYTES, _EVENTS, _SOCKET = "/tts/bytes", "/tts/sse", "/tts/websocket"
_VOICES = "/voices"


def add_to(
    app: FastAPI, service: SpeechService, authenticator: Authenticator, settings: Settings
) -> None:
    """Answer Cartesia's clients on ``app``."""
    door = SocketGatekeeper.of(app, service, settings)

    async def spoken(request: Request, *, as_events: bool) -> Response:
        body = await read_body(request, SpeechBody)
        config = body.config()
        if config.word_times:
            service.check_word_times("add_timestamps")
        asked = speech_request(service, config, body.transcript, request.state)
        is_float = body.output_format.is_float
        form = EventBody(asked, body.context_id, is_float=is_float) if as_events else Body()
        if is_float and not as_events:
            form = FloatBody()
        return SpokenResponse(service, asked, INTERFACE, config.encoder, form, is_streamed=True)

    async def live(websocket: WebSocket) -> None:
        async def begin() -> Session:
            query = websocket.query_params
            key = key_of(websocket.headers) or query.get("api_key") or query.get("access_token")
            return Session(websocket, service, authenticator.client(key, host_of(websocket)))

        await door.admit(websocket, INTERFACE, begin, error_response=error_response)

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
        self._request_id, self._is_float = request.request_id, is_float
        self._context = {} if context_id is None else {"context_id": context_id}
        self._words = MarkedWords(request.speed)
        self._since = time.monotonic()

    def begin(self, speech: Speech) -> None:
        """Note the text, whose words follow."""
        self._words.append(speech.request.text)

    def part(self, piece: EncodedPiece) -> bytes:
        """Return the events of a piece."""
        events = b""
        if piece.words:
            words = self._words.timestamps(piece.words, 0.0)
            events += self._event("timestamps", status_code=206, word_timestamps=words)
        if piece.data:
            data = as_floats(piece.data) if self._is_float else piece.data
            now = time.monotonic()
            step, self._since = (now - self._since) * 1000, now
            events += self._event(
                "chunk",
                status_code=206,
                data=to_base64(data),
                step_time=round(step, 3),
            )
        return events

    def end(self, speech: Speech) -> bytes:
        """Return the last event."""
        return self._event("done", done=True, status_code=200)

    def error(self, error: ServingError) -> bytes:
        """Return the event of an error."""
        fields = error_fields(error)
        return self._event("error", done=True, request_id=self._request_id, **fields)

    def _event(self, kind: str, *, done: bool = False, **fields: Any) -> bytes:
        data = json.dumps({"type": kind, "done": done, **self._context, **fields})
        return f"event: {kind}\ndata: {data}\n\n".encode()
