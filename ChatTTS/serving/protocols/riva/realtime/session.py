"""One socket: its messages, and the texts that are spoken for them."""

from __future__ import annotations

from typing import Any

from starlette.websockets import WebSocket

from ....errors import BadRequestError, ServingError
from ....live.context import Context
from ....live.messages import text_of
from ....live.session import SocketSession
from ....requests.request import new_request_id
from ....speech.service import SpeechService
from .sender import INTERFACE, Sender
from .settings import SessionSettings


class RealtimeSession(SocketSession):
    """Serves one socket.

    Args:
        websocket: the socket.
        service: speaks.
        client: see its base; the key was checked.
        settings: those that the client has not changed yet.
    """

    def __init__(
        self,
        websocket: WebSocket,
        service: SpeechService,
        client: str,
        settings: SessionSettings,
    ) -> None:
        super().__init__(websocket, service, INTERFACE, client)
        self._settings = settings
        self._sender = Sender(self.send_queue)
        self._has_begun = False  # a text that has not ended

    async def begin(self) -> None:
        """Greet the client."""
        await self._sender.send("conversation.created", conversation={"id": new_request_id()})

    async def tell(self, error: ServingError, fields: dict[str, Any] | None) -> None:
        """Send an error; the socket goes on."""
        await self._sender.send_error(error)

    async def answer(self, fields: dict[str, Any]) -> None:
        """Do what a message wants."""
        kind = fields.get("type")
        if kind == "synthesize_session.update":
            session = fields.get("session")
            if not isinstance(session, dict):
                raise BadRequestError("session must be an object", param="session")
            self._settings = await self._settings.updated(session, self.service)
            await self._sender.send("synthesize_session.updated", session=self._settings.as_json())
        elif kind == "input_text.append":
            text = text_of(fields)
            await (await self._text()).append(text)
        elif kind == "input_text.commit":
            (await self._text()).speak_rest()
        elif kind == "input_text.done":
            (await self._text()).flush()
            self._has_begun = False
        else:
            raise BadRequestError(f"unknown message type {str(kind)[:40]!r}", param="type")

    async def _text(self) -> Context:
        """Return the context; a new text has the settings of now, and draws from the beginning."""
        context = self.contexts.get(None)
        if self._has_begun and context is not None:
            return context
        config = await self.service.in_thread(lambda: self._settings.config(self.service))
        if context is None:
            context = self.open_context(None, config, self._sender)
        else:
            context.configure(config, is_seed_new=True)
        self._has_begun = True
        return context
