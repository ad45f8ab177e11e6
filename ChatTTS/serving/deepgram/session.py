"""One socket: text that is spoken as it comes, until it is cleared or flushed."""

from __future__ import annotations

from typing import Any

from fastapi import WebSocket

from ..errors import BadRequestError
from ..live.config import RunConfig
from ..live.context import Context
from ..live.messages import is_text
from ..live.send_queue import SocketClose
from ..live.session import NORMAL, SocketSession
from ..live.spacing import TextSpacing
from ..service import SpeechService
from .errors import INTERFACE
from .sender import Sender


class Session(SocketSession):
    """Serves one accepted socket.

    Args:
        client: name of the client, whose key was checked.
        config: settings of all its speech.
    """

    def __init__(
        self, websocket: WebSocket, service: SpeechService, client: str, config: RunConfig
    ) -> None:
        super().__init__(websocket, service, INTERFACE)
        self.client = client
        self._config = config
        self._sender = Sender(self.send_queue, config.voice or service.voices.default or "")
        self._spacing = TextSpacing()

    async def authenticate(self) -> SocketClose | None:
        """Greet the client, whose key was checked in the handshake."""
        await self._sender.send_metadata()
        return None

    async def handle(self, data: str) -> SocketClose | None:
        """Handle a message; a wrong one is answered with a warning."""
        try:
            fields = await self.decode(data)
            await self._handle(fields)
        except Exception as error:  # told to the client
            await self._sender.send_warning(self.noted(error))
        return None

    async def _handle(self, fields: dict[str, Any]) -> None:
        kind = fields.get("type")
        if kind == "Speak":
            text = fields.get("text")
            if not is_text(text):
                raise BadRequestError("text must be a string", param="text")
            await self._context().append(self._spacing.spaced(text))
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
                await self.send_queue.close(SocketClose(NORMAL, "all text was spoken"))
        elif kind != "KeepAlive":
            raise BadRequestError("type must be Speak, Flush, Clear or Close", param="type")

    def _context(self) -> Context:
        found = self.contexts.get(None)
        return found or self.open_context(None, self._config, self._sender)
