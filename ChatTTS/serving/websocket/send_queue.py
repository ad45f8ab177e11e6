"""The queue of what is sent on one socket, in order and no faster than the client reads."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from ..errors import ServingError

# Messages that may wait to be written. A producer with more of them waits, and so does the engine
# behind it.
_MAX_WAITING = 4


@dataclass(frozen=True)
class SocketClose:
    """The way in which a socket is closed.

    Attributes:
        code: of the closing frame; ``None`` where the client is gone or does not read.
        reason: in words.
    """

    code: int | None = None
    reason: str = ""


class SendQueue:
    """Writes to a socket; :meth:`run` does the work.

    Attributes:
        last_written: time of the last write, by ``time.monotonic``.
        blocked_since: time since which a write waits for the client to read; ``None`` where no
            write waits.
    """

    def __init__(self, websocket: WebSocket) -> None:
        self.last_written = time.monotonic()
        self.blocked_since: float | None = None
        self._websocket = websocket
        self._waiting: asyncio.Queue[SocketClose | tuple[str | bytes, ...]] = asyncio.Queue(
            _MAX_WAITING
        )

    async def put(self, *frames: str | bytes) -> None:
        """Queue frames that are sent directly after one another.

        If this call is cancelled, none of them is sent.
        """
        await self._waiting.put(frames)

    async def close(self, closing: SocketClose) -> None:
        """Close the socket after everything that is queued now."""
        await self._waiting.put(closing)

    async def run(self) -> SocketClose:
        """Write until the socket is to be closed, or is closed; return how."""
        while not isinstance(item := await self._waiting.get(), SocketClose):
            self.blocked_since = time.monotonic()
            try:
                for frame in item:
                    await self._write(frame)
            except (WebSocketDisconnect, RuntimeError, OSError):  # closed by either side
                return SocketClose()
            self.blocked_since = None
            self.last_written = time.monotonic()
        return item

    async def _write(self, frame: str | bytes) -> None:
        if isinstance(frame, str):
            await self._websocket.send_text(frame)
        else:
            await self._websocket.send_bytes(frame)


@dataclass(frozen=True)
class ContextSender:
    """Sends the messages of one context.

    Attributes:
        queue: of the socket.
        context_id: goes into every message; ``None`` for the default context.
        needs_framing: returns whether an ``audio.chunk`` must precede each binary frame, so that
            the client knows which context it belongs to.
    """

    queue: SendQueue
    context_id: str | None
    needs_framing: Callable[[], bool]

    async def send(self, kind: str, **fields: Any) -> None:
        """Send a JSON message."""
        await self.queue.put(self._message(kind, fields))

    async def send_error(self, error: ServingError) -> None:
        """Send an ``error`` message; the socket and its contexts go on."""
        body = error.as_json()
        if error.retry_after is not None:
            body["retry_after"] = error.retry_after
        await self.send("error", error=body)

    async def send_audio(self, data: bytes, position: int, *, is_base64: bool) -> None:
        """Send encoded sound.

        Args:
            position: of its first sample in the run.
        """
        if is_base64:
            audio = base64.b64encode(data).decode("ascii")
            await self.send("audio.delta", audio=audio, position=position)
        elif self.needs_framing():
            header = self._message("audio.chunk", {"bytes": len(data), "position": position})
            await self.queue.put(header, data)
        else:
            await self.queue.put(data)

    def _message(self, kind: str, fields: dict[str, Any]) -> str:
        name = {} if self.context_id is None else {"context_id": self.context_id}
        return json.dumps({"type": kind, **name, **fields})
