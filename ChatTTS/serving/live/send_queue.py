"""The queue of what is sent on one socket, in order and no faster than the client reads."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from fastapi import WebSocket, WebSocketDisconnect

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


ALL_SAID = SocketClose(1000, "all text was spoken")
"""The way in which a socket is closed whose client wants no more."""


class SendQueue:
    """Writes to a socket; :meth:`run` does the work.

    Attributes:
        last_written: time of the last write, by ``time.monotonic``.
        blocked_since: time since which a write waits for the client to read; ``None`` where no
            write waits.
        is_closing: whether the socket is to be closed after what is queued.
    """

    def __init__(self, websocket: WebSocket) -> None:
        self.last_written = time.monotonic()
        self.blocked_since: float | None = None
        self.is_closing = False
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
        self.is_closing = True
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
