"""One socket: text that is spoken as it comes, until it is cleared or flushed."""

from __future__ import annotations

from typing import Any

from fastapi import WebSocket

from ...errors import BadRequestError, ServingError
from ...live.context import Context
from ...live.messages import text_of
from ...live.send_queue import ALL_SAID
from ...live.session import SocketSession
from ...live.spacing import TextSpacing
from ...speech.config import RunConfig
from ...speech.service import SpeechService
from .errors import INTERFACE
from .sender import Sender


class Session(SocketSession):
    """Serves one accepted socket.

    Args:
        client: see its base; the key was checked.
        config: settings of all its speech.
    """

    def __init__(
        self, websocket: WebSocket, service: SpeechService, client: str, config: RunConfig
    ) -> None:
        super().__init__(websocket, service, INTERFACE, client)
        self._config = config
        self._sender = Sender(self.send_queue, config.voice or service.voices.default or "")
        self._spacing = TextSpacing()

    async def begin(self) -> None:
        """Greet the client."""
        await self._sender.send_metadata()

    async def tell(self, error: ServingError, fields: dict[str, Any] | None) -> None:
        """Send a warning."""
        await self._sender.send_warning(error)

    async def answer(self, fields: dict[str, Any]) -> None:
        """Do what a message wants."""
        kind = fields.get("type")
        if kind == "Speak":
            await self._context().append(self._spacing.spaced(text_of(fields)))
        elif kind == "Flush":
            self._spacing.reset()
            self._context().flush()
            self._sender.expect_flush()
        elif kind == "Clear":
            self._spacing.reset()
            if (context := self.contexts.get(None)) is not None:
                await context.cancel()
            await self._sender.send_cleared()
        elif kind == "Close":
            if (context := self.contexts.get(None)) is not None and not context.is_done:
                context.done()
            elif context is None:
                await self.send_queue.close(ALL_SAID)
        elif kind != "KeepAlive":
            raise BadRequestError("type must be Speak, Flush, Clear or Close", param="type")

    def _context(self) -> Context:
        found = self.contexts.get(None)
        return found or self.open_context(None, self._config, self._sender)
