"""The routes of speech, and how requests for this interface are recognised."""

from __future__ import annotations

import json
from functools import partial

from fastapi import FastAPI, WebSocket
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Scope

from ...encoding.base64_blocks import to_base64
from ...errors import UnknownVoiceError
from ...http.auth import Authenticator
from ...http.bodies import read_body
from ...http.protocol import HttpProtocol, add_protocol
from ...http.responses import Body, EncodedPiece, SpokenResponse, speech_request
from ...live.gatekeeper import SocketGatekeeper
from ...requests.characters import CharacterTimes, TimedCharacter
from ...requests.request import SpeechRequest
from ...settings import Settings
from ...speech.service import SpeechService
from ...speech.speech import Speech
from .alignment import alignment_seconds
from .bodies import SpeechBody
from .catalogue import catalogue_routes
from .errors import INTERFACE, error_response, key_of
from .formats import OutputFormat
from .session import Session

_SPEECH = "/v1/text-to-speech/"
_OWN = ("/v1/voices", "/v2/voices", "/v1/user")
_SHARED = "/v1/models"
_SDK = "elevenlabs"


def add_to(
    app: FastAPI, service: SpeechService, authenticator: Authenticator, settings: Settings
) -> None:
    """Answer ElevenLabs' clients on ``app``."""
    gatekeeper = SocketGatekeeper.of(app, service, settings)

    async def answer(request: Request, *, is_streamed: bool, with_times: bool) -> Response:
        output = OutputFormat.parse(request.query_params.get("output_format"))
        body = await read_body(request, SpeechBody)
        if with_times:
            service.check_word_times("with-timestamps")
        config = body.config(
            request.path_params["voice"], output, service.model.languages, word_times=with_times
        )
        asked = speech_request(
            service, config, body.text, request.state, INTERFACE, is_whole=not is_streamed
        )
        await _check_voice(service, asked)
        form = TimedBody(asked, is_streamed=is_streamed) if with_times else Body()
        headers = {"request-id": request.state.request_id}
        return SpokenResponse(
            service, asked, config.encoder, form, is_streamed=is_streamed, headers=headers
        )

    async def whole(request: Request) -> Response:
        return await answer(request, is_streamed=False, with_times=False)

    async def streamed(request: Request) -> Response:
        return await answer(request, is_streamed=True, with_times=False)

    async def whole_with_times(request: Request) -> Response:
        return await answer(request, is_streamed=False, with_times=True)

    async def streamed_with_times(request: Request) -> Response:
        return await answer(request, is_streamed=True, with_times=True)

    async def one_context(websocket: WebSocket) -> None:
        await admit(websocket, is_multi=False)

    async def many_contexts(websocket: WebSocket) -> None:
        await admit(websocket, is_multi=True)

    async def admit(websocket: WebSocket, *, is_multi: bool) -> None:
        async def begin() -> Session:
            return Session(websocket, service, authenticator, is_multi=is_multi)

        await gatekeeper.admit(websocket, INTERFACE, begin, error_response=error_response)

    base = f"{_SPEECH}{{voice}}"
    routes = [
        Route(base, whole, methods=["POST"]),
        Route(f"{base}/stream", streamed, methods=["POST"]),
        Route(f"{base}/with-timestamps", whole_with_times, methods=["POST"]),
        Route(f"{base}/stream/with-timestamps", streamed_with_times, methods=["POST"]),
        WebSocketRoute(f"{base}/stream-input", one_context),
        WebSocketRoute(f"{base}/multi-stream-input", many_contexts),
        *catalogue_routes(service),
    ]
    protocol = HttpProtocol(INTERFACE, _owns, routes, error_response, key_of)
    add_protocol(app, service, authenticator, settings, protocol)


def _owns(scope: Scope) -> bool:
    path: str = scope["path"]
    if path.startswith(_SPEECH):
        return True
    if scope["type"] != "http":
        return False
    if any(path == own or path.startswith(f"{own}/") for own in _OWN):
        return True
    headers = Headers(scope=scope)
    is_client = "xi-api-key" in headers or headers.get("x-fern-sdk-name") == _SDK
    return path == _SHARED and is_client


async def _check_voice(service: SpeechService, request: SpeechRequest) -> None:
    """Raise UnknownVoiceError with the status of an address if there is no such voice."""
    try:
        await service.in_thread(partial(service.voices.parameters, request.voice))
    except UnknownVoiceError as error:
        raise UnknownVoiceError(str(error), param="voice_id", is_address=True) from error


class TimedBody(Body):
    """Sound in base64 with the times of its characters: an object, or one a line.

    Args:
        request: the text.
        is_streamed: whether there is a line for each piece.
    """

    def __init__(self, request: SpeechRequest, *, is_streamed: bool) -> None:
        self.media_type = "application/json"
        self._is_streamed = is_streamed
        self._speed = request.speed
        self._times = CharacterTimes(request.speed)
        self._held = b""
        self._timed: list[TimedCharacter] = []

    def begin(self, speech: Speech) -> None:
        """Note the text, whose characters follow."""
        self._times.append(speech.request.text)

    def part(self, piece: EncodedPiece) -> bytes:
        """Return the line of a piece.

        The sound of a whole answer is kept: its end has the times up to the end of the sound.
        """
        self._timed = self._times.add(piece.words)
        if not self._is_streamed:
            self._held = piece.data
            return b""
        return self._line(piece.data) if piece.data or self._timed else b""

    def end(self, speech: Speech) -> bytes:
        """Return the last line, or the whole object."""
        rest = self._times.finish(speech.record.seconds / self._speed)
        self._timed = rest if self._is_streamed else self._timed + rest
        return self._line(self._held) if self._held or self._timed else b""

    def _line(self, data: bytes) -> bytes:
        alignment = alignment_seconds(self._timed)
        fields = {
            "audio_base64": to_base64(data),
            "alignment": alignment,
            "normalized_alignment": alignment,
        }
        return json.dumps(fields).encode() + (b"\n" if self._is_streamed else b"")
