"""One socket: its authentication, its messages, and the contexts that speak on it."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any

from fastapi import WebSocket

from ...errors import AuthenticationError, BadRequestError, ServingError
from ...http.auth import Authenticator
from ...live.context import Context
from ...live.run import Run
from ...live.send_queue import SocketClose
from ...live.session import SocketSession, host_of
from ...requests.words import word_fields
from ...speech.service import SpeechService
from .config import ContextConfig
from .messages import (
    Append,
    Auth,
    Cancel,
    Configure,
    Done,
    Flush,
    Message,
    context_of,
    parse,
)
from .sender import INTERFACE, ContextSender

UNAUTHORIZED = 4401  # a closing code, which echoes HTTP's
_MISSING = "the first message must be session.auth"


class Session(SocketSession):
    """Serves one accepted socket.

    Args:
        authenticator: authenticates the client.
    """

    def __init__(
        self, websocket: WebSocket, service: SpeechService, authenticator: Authenticator
    ) -> None:
        super().__init__(websocket, service, INTERFACE)
        self._authenticator = authenticator
        self._config = ContextConfig()
        # The last run of each context: the client may still play it after all of it was sent.
        self._last_runs: OrderedDict[str | None, Run] = OrderedDict()
        self._has_named_contexts = False

    async def begin(self) -> SocketClose | None:
        """Look for a valid key in the client's request, and then in its first message."""
        socket = self.websocket
        key = socket.headers.get("authorization") or socket.query_params.get("api_key")
        try:
            first = await self.identify(self._authenticator, key, _key_of, _MISSING)
        except AuthenticationError:
            reason = "an API key is needed, and was not given or is wrong"
            return SocketClose(UNAUTHORIZED, reason)
        return first if isinstance(first, SocketClose) else None

    async def answer(self, fields: dict[str, Any]) -> SocketClose | None:
        """Do what a message wants; a wrong key closes the socket."""
        try:
            await self._answer(parse(fields), context_of(fields))
        except AuthenticationError as error:
            return SocketClose(UNAUTHORIZED, str(error))
        return None

    async def tell(self, error: ServingError, fields: dict[str, Any] | None) -> None:
        """Send an error; the socket goes on."""
        await self._sender(context_of(fields or {})).send_error(error)

    async def _answer(self, message: Message, name: str | None) -> None:
        if isinstance(message, Auth):
            self._authenticator.client(message.api_key, host_of(self.websocket))
        elif isinstance(message, Cancel):
            await self._cancel(name, message.played_samples)
        elif self.is_closing:
            raise BadRequestError("session.close was already sent: only input.cancel may follow it")
        elif isinstance(message, Configure):
            await self._configure(name, message)
        elif isinstance(message, Append):
            await self._context(name).append(message.text)
        elif isinstance(message, Flush):
            self._context(name).flush()
        elif isinstance(message, Done):
            self._context(name).done()
        else:
            await self.close_when_said()

    async def _configure(self, name: str | None, message: Configure) -> None:
        """Change a context's settings; those of the default context also apply to new ones."""
        fields: dict[str, Any] = dict(message.settings)
        config = self._config.updated(fields)
        self.service.check_language(config.language)
        if config.word_times:
            self.service.check_word_times("word_times")
        if config.tells_faults:
            self.service.check_word_times("guard")
        if fields.get("voice") is not None:
            await self.check_voice(config)
        context = self._context(name)
        own = context.config
        assert isinstance(own, ContextConfig)
        context.configure(own.updated(fields), is_seed_new="seed" in fields)
        if name is None:
            self._config = config

    async def _cancel(self, name: str | None, played_samples: int | None) -> None:
        context = self.contexts.get(name)
        run = None if context is None else await context.cancel()
        sent = 0 if run is None else run.sent_samples
        if run is None and played_samples is not None:
            run = self._last_runs.get(name)
        played = None if run is None else run.played_text(played_samples)
        sender = self._sender(name)
        answer: dict[str, Any] = {
            "sent_samples": sent,
            "spoken_text": "" if played is None else played.text,
            "is_exact": played is None or played.is_exact,
        }
        if run is not None and played is not None and run.config.word_times:
            word = played.last_word
            answer["last_word"] = None if word is None else word_fields(word, run.config.speed)
        await sender.send("audio.cancelled", **answer)
        if context is not None and context.is_done:
            await sender.send("session.done")
            await self.remove_context(name)

    # -- contexts --------------------------------------------------------------------------

    def _context(self, name: str | None) -> Context:
        """Return the context of this name, which is created if there is none.

        Raises:
            OverloadedError: there are too many.
        """
        context = self.contexts.get(name)
        if context is None:
            remember = partial(self._remember_run, name)
            sender = self._sender(name)
            context = self.open_context(name, self._config, sender, remember, skips_silence=False)
            self._has_named_contexts |= name is not None
        return context

    def _sender(self, name: str | None) -> ContextSender:
        def needs_framing() -> bool:
            return self._has_named_contexts or self._config.framing

        return ContextSender(self.send_queue, name, needs_framing)

    def _remember_run(self, name: str | None, run: Run) -> None:
        self._last_runs[name] = run
        self._last_runs.move_to_end(name)
        if len(self._last_runs) > self.limits.contexts:
            self._last_runs.popitem(last=False)


def _key_of(fields: dict[str, Any]) -> str | None:
    message = parse(fields)
    return message.api_key if isinstance(message, Auth) else None
