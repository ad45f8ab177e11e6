"""One socket with many contexts."""

from __future__ import annotations

from typing import Any

from fastapi import WebSocket

from ...errors import ServingError
from ...http.bodies import validated
from ...live.context import Context
from ...live.messages import checked_id, is_id
from ...live.session import SocketSession
from ...live.spacing import TextSpacing
from ...speech.service import SpeechService
from .bodies import SpeechBody
from .errors import INTERFACE
from .sender import ContextSender

# A context takes one of few places; its client may never say that it is over.
_CONTEXT_SECONDS = 60.0


class Session(SocketSession):
    """Serves one accepted socket, whose client's key was checked."""

    def __init__(self, websocket: WebSocket, service: SpeechService, client: str) -> None:
        super().__init__(websocket, service, INTERFACE, client)
        self.context_seconds = _CONTEXT_SECONDS
        self._senders: dict[str, ContextSender] = {}
        self._spacings: dict[str, TextSpacing] = {}

    async def tell(self, error: ServingError, fields: dict[str, Any] | None) -> None:
        """Tell an error, which ends its context; the socket goes on."""
        name = (fields or {}).get("context_id")
        known = name if is_id(name) else ""
        await self._cancel(known)
        sender = ContextSender(self.send_queue, known, is_float=False, on_failed=lambda: None)
        await sender.send_error(error)

    async def remove_context(self, name: str | None) -> None:
        """Forget a context that has ended."""
        await super().remove_context(name)
        self._senders.pop(name or "", None)
        self._spacings.pop(name or "", None)

    async def answer(self, fields: dict[str, Any]) -> None:
        """Do what a message wants."""
        name = checked_id(fields.get("context_id"))
        if fields.get("cancel") is True:
            await self._cancel(name)
            return
        body = validated(fields, SpeechBody)
        context = self.contexts.get(name) or await self._open(name, body)
        context.touch()
        sender, spacing = self._senders[name], self._spacings[name]
        if body.transcript and (body.transcript.strip() or context.has_text):
            await context.append(spacing.spaced(body.transcript))
        if not body.continues:
            context.done()
        elif body.flush:
            context.flush()
            sender.expect_flush()
        elif body.speaks_at_once and context.has_text:
            context.flush()

    async def _open(self, name: str, body: SpeechBody) -> Context:
        """Return a new context, whose settings are those of its first message."""
        config = body.config(self.service.model.languages, flush_after=body.flush_after)
        if config.word_times:
            self.service.check_word_times("add_timestamps")
        await self.check_voice(config)

        def end() -> None:
            context = self.contexts.get(name)
            if context is not None and not context.is_done:
                context.done()

        sender = ContextSender(
            self.send_queue, name, is_float=body.output_format.is_float, on_failed=end
        )
        context = self.open_context(name, config, sender)
        self._senders[name], self._spacings[name] = sender, TextSpacing()
        return context

    async def _cancel(self, name: str) -> None:
        """Stop speaking; no message of this context follows."""
        context = self.contexts.get(name)
        if context is not None:
            await context.cancel()
            await self.remove_context(name)
