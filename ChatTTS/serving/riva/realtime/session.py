"""One socket: its messages, and the sound that is sent for them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from contextlib import aclosing
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from ....errors import ChatTTSError
from ....utils.untrusted import parse_json
from ...errors import (
    BadRequestError,
    DeadlineError,
    ServingError,
    as_serving_error,
)
from ...live.text_stream import TextStream
from ...request_logs import log_failure, log_refusal
from ...requests import new_request_id
from ...service import SpeechService
from ..stream_encoder import StreamEncoder
from .settings import SessionSettings

INTERFACE = "riva-realtime"
_IDLE = 4408
# What Starlette raises once the client has left.
_GONE = (WebSocketDisconnect, RuntimeError, OSError)


class RealtimeSession:
    """Serves one socket that was accepted.

    Args:
        websocket: the socket.
        service: speaks.
        client: the client's name, for limits and logs.
        settings: those that the client has not changed yet.
    """

    def __init__(
        self,
        websocket: WebSocket,
        service: SpeechService,
        client: str,
        settings: SessionSettings,
    ) -> None:
        self._websocket, self._service, self._client = websocket, service, client
        self._settings = settings
        self._stream: TextStream | None = None
        self._speaking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Handle messages until the client leaves or is idle for too long."""
        await self._send("conversation.created", conversation={"id": new_request_id()})
        try:
            while (data := await self._receive()) is not None:
                try:
                    await self._handle(_parsed(data))
                except Exception as error:
                    await self._tell(error)
        except _GONE:
            pass
        finally:
            if self._speaking is not None:
                self._speaking.cancel()
                await asyncio.wait({self._speaking})

    async def _receive(self) -> str | None:
        """Return the next message; ``None`` if the client has sent none for too long."""
        limits = self._service.settings.limits
        while True:
            try:
                data = await asyncio.wait_for(self._websocket.receive_text(), limits.idle_seconds)
            except KeyError:  # a binary frame
                await self._tell(BadRequestError("messages are JSON, not binary frames"))
                continue
            except asyncio.TimeoutError:
                if self._speaking is not None and not self._speaking.done():
                    continue
                with contextlib.suppress(RuntimeError, OSError):
                    await self._websocket.close(_IDLE, "no message came for too long")
                return None
            return data

    async def _handle(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "synthesize_session.update":
            session = message.get("session")
            if not isinstance(session, dict):
                raise BadRequestError("session must be an object", param="session")
            self._settings = await self._settings.updated(session, self._service)
            await self._send("synthesize_session.updated", session=self._settings.as_json())
        elif kind == "input_text.append":
            text = message.get("text")
            if not isinstance(text, str):
                raise BadRequestError("text must be a string", param="text")
            (await self._open_stream()).append(text)
        elif kind == "input_text.commit":
            (await self._open_stream()).flush()
        elif kind == "input_text.done":
            (await self._open_stream()).end()
            self._stream = None
        else:
            raise BadRequestError(f"there is no message type {str(kind)[:40]!r}", param="type")

    async def _open_stream(self) -> TextStream:
        """Return the text that is being written; the one before is spoken first."""
        if self._stream is None:
            if self._speaking is not None:
                await self._speaking
            settings = self._settings
            request = settings.request(self._service, self._client)
            self._stream = TextStream(self._service, request, INTERFACE)
            self._speaking = asyncio.create_task(self._speak(self._stream, settings))
        return self._stream

    async def _speak(self, stream: TextStream, settings: SessionSettings) -> None:
        encoder = StreamEncoder(settings.audio, self._service.in_thread)
        try:
            async with aclosing(stream.pieces()) as pieces:
                async for piece in pieces:
                    await self._send_audio(await encoder.push(piece.samples))
            await self._send_audio(await encoder.finish())
            await self._send("conversation.item.speech.completed", is_last_result=True)
        except Exception as error:
            if self._stream is stream:
                self._stream = None
            with contextlib.suppress(*_GONE):
                await self._tell(error)

    async def _send_audio(self, data: bytes) -> None:
        if data:
            audio = base64.b64encode(data).decode("ascii")
            await self._send("conversation.item.speech.data", audio=audio)

    async def _send(self, kind: str, **fields: Any) -> None:
        seconds = self._service.settings.limits.idle_seconds
        message = {"event_id": new_request_id(), "type": kind, **fields}
        try:
            await asyncio.wait_for(self._websocket.send_json(message), seconds)
        except asyncio.TimeoutError:
            raise DeadlineError(f"no sound was taken for {seconds:g} s: read faster") from None

    async def _tell(self, error: Exception) -> None:
        """Log an error and send it."""
        if isinstance(error, _GONE) and not isinstance(error, ChatTTSError):
            raise error
        refusal = as_serving_error(error)
        if type(refusal) is ServingError:
            log_failure("a realtime request", refusal, with_text=False)
        self._service.metrics.count_refusal(refusal)
        log_refusal(refusal, INTERFACE, client=self._client)
        with contextlib.suppress(*_GONE, ServingError):
            await self._send("error", error=refusal.as_json())


def _parsed(data: str) -> dict[str, Any]:
    try:
        message = parse_json(data)
    except ValueError as error:
        raise BadRequestError("a message must be JSON") from error
    if not isinstance(message, dict):
        raise BadRequestError("a message must be a JSON object")
    return message
