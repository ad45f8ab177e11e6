"""All that goes out on one socket, in order, no faster than the client reads."""

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

# Messages that wait to be written; whoever has more waits, and so does the engine behind it.
_MOST_WAITING = 4


@dataclass(frozen=True)
class Ending:
    """How a socket ends.

    Attributes:
        code: of the closing frame; ``None`` where the client is gone or does not read.
        reason: in words.
    """

    code: int | None = None
    reason: str = ""


class Outbox:
    """Writes to a socket; :meth:`run` does the work.

    Attributes:
        last_written: when something was written last, by ``time.monotonic``.
        blocked_since: since when the client does not read; ``None`` where it does.
    """

    def __init__(self, websocket: WebSocket) -> None:
        self.last_written = time.monotonic()
        self.blocked_since: float | None = None
        self._websocket = websocket
        self._waiting: asyncio.Queue[Ending | tuple[str | bytes, ...]] = asyncio.Queue(
            _MOST_WAITING
        )

    async def put(self, *frames: str | bytes) -> None:
        """Have frames sent, one right after the other; cancelled, none of them is."""
        await self._waiting.put(frames)

    async def end(self, ending: Ending) -> None:
        """Have the socket closed after all that is here."""
        await self._waiting.put(ending)

    async def run(self) -> Ending:
        """Write until the end."""
        while not isinstance(item := await self._waiting.get(), Ending):
            self.blocked_since = time.monotonic()
            try:
                for frame in item:
                    await self._write(frame)
            except (WebSocketDisconnect, RuntimeError, OSError):  # closed from either side
                return Ending()
            self.blocked_since = None
            self.last_written = time.monotonic()
        return item

    async def _write(self, frame: str | bytes) -> None:
        if isinstance(frame, str):
            await self._websocket.send_text(frame)
        else:
            await self._websocket.send_bytes(frame)


@dataclass(frozen=True)
class Channel:
    """The outbox as one context sees it.

    Attributes:
        outbox: of the socket.
        context_id: goes into every message; ``None`` for the default context.
        is_framed: whether binary frames must say whose they are.
    """

    outbox: Outbox
    context_id: str | None
    is_framed: Callable[[], bool]

    async def send(self, kind: str, **fields: Any) -> None:
        """A message in JSON."""
        await self.outbox.put(self._message(kind, fields))

    async def send_error(self, error: ServingError) -> None:
        """What went wrong; nothing else ends by it."""
        told = error.as_json()
        if error.retry_after is not None:
            told["retry_after"] = error.retry_after
        await self.send("error", error=told)

    async def send_audio(self, data: bytes, position: int, *, is_base64: bool) -> None:
        """Sound.

        Args:
            position: of its first sample in the run.
        """
        if is_base64:
            audio = base64.b64encode(data).decode("ascii")
            await self.send("audio.delta", audio=audio, position=position)
        elif self.is_framed():
            head = self._message("audio.chunk", {"bytes": len(data), "position": position})
            await self.outbox.put(head, data)
        else:
            await self.outbox.put(data)

    def _message(self, kind: str, fields: dict[str, Any]) -> str:
        name = {} if self.context_id is None else {"context_id": self.context_id}
        return json.dumps({"type": kind, **name, **fields})
