"""One socket: ``stream-input`` with one context, or ``multi-stream-input`` with many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import WebSocket

from ....languages import find_language
from ...errors import AuthenticationError, BadRequestError, ServingError
from ...http.auth import Authenticator
from ...http.bodies import whole_number
from ...live.context import Context
from ...live.messages import checked_id, is_id, is_text, text_of
from ...live.send_queue import SocketClose
from ...live.session import SocketSession
from ...speech.config import RunConfig
from ...speech.service import SpeechService
from .alignment import SocketAlignment
from .bodies import parse_seed, parse_settings, speed_of
from .errors import INTERFACE, key_of
from .formats import OutputFormat
from .sender import ContextSender

_MISSING = "an API key is needed: send it as xi-api-key"
# ElevenLabs' own: seconds without a message after which a context ends.
_INACTIVITY, _MOST_INACTIVITY = 20.0, 180.0
_DEFAULT = "default"  # the name of a context that has none, on a socket with many


class Session(SocketSession):
    """Serves one accepted socket.

    Args:
        authenticator: authenticates the client.
        is_multi: whether messages name contexts.
    """

    def __init__(
        self,
        websocket: WebSocket,
        service: SpeechService,
        authenticator: Authenticator,
        *,
        is_multi: bool,
    ) -> None:
        super().__init__(websocket, service, INTERFACE)
        self._authenticator, self._is_multi = authenticator, is_multi
        self._config = RunConfig()
        self.context_seconds = _inactivity(websocket.query_params.get("inactivity_timeout"))
        # The client says that each of its texts is a sentence or a phrase.
        self._is_automatic = websocket.query_params.get("auto_mode") == "true"
        self._has_ended = False  # with one context: its end was said

    async def begin(self) -> SocketClose | None:
        """Look for a valid key in the client's request, and then in its first message."""
        socket = self.websocket
        key = key_of(socket.headers) or socket.query_params.get("xi-api-key")
        try:
            first = await self.identify(self._authenticator, key, _key_in, _MISSING)
        except AuthenticationError as error:
            await self._sender(None, is_only=True).send_error(error)
            return None
        if isinstance(first, SocketClose):
            return first
        try:
            self._config = await self._first_config()
        except Exception as error:  # told to the client
            await self._sender(None, is_only=True).send_error(self.noted(error))
            return None
        return None if first is None else await self.handle(first)

    async def answer(self, fields: dict[str, Any]) -> None:
        """Do what a message wants."""
        if self._is_multi:
            await self._answer_many(fields, checked_id(_name_of(fields)))
        else:
            await self._answer_one(fields)

    async def tell(self, error: ServingError, fields: dict[str, Any] | None) -> None:
        """Tell an error in its context."""
        name = _name_of(fields) if self._is_multi and fields is not None else None
        await self._sender(name if is_id(name) else None).send_error(error)

    async def _first_config(self) -> RunConfig:
        query = self.websocket.query_params
        output = OutputFormat.parse(query.get("output_format"))
        config = RunConfig(
            voice=self.websocket.path_params["voice"],
            seed=parse_seed(query.get("seed")),
            language=find_language(query.get("language_code"), self.service.model.languages),
            word_times=self.service.gives_word_times,
            **output.fields,
        )
        config.check()
        await self.check_voice(config)
        return config

    async def _answer_one(self, fields: dict[str, Any]) -> None:
        if self._has_ended:
            return
        text = _text_of(fields)
        context = self.contexts.get(None) or self._open(None, fields)
        context.touch()
        if text == "":
            self._has_ended = True
            context.done()
            return
        await self._speak(context, fields, text or "")

    async def _answer_many(self, fields: dict[str, Any], name: str) -> None:
        if fields.get("close_socket") is True:
            await self.close_when_said()
            return
        if self.is_closing:
            raise BadRequestError("close_socket was already sent: no message may follow it")
        text, context = _text_of(fields), self.contexts.get(name)
        if text and context is None:
            context = self._open(name, fields)
        if context is None:  # nothing to speak, flush or end: it only keeps the socket alive
            return
        context.touch()
        if not context.is_done:
            await self._speak(context, fields, text or "")
        if fields.get("close_context") is True and not context.is_done:
            context.done()

    async def _speak(self, context: Context, fields: dict[str, Any], text: str) -> None:
        if text.strip() or context.has_text:
            await context.append(text)
        if context.has_text and (self._is_automatic or fields.get("flush") is True):
            context.flush()

    def _open(self, name: str | None, fields: dict[str, Any]) -> Context:
        """Return a new context, with the settings of its first message."""
        config = self._config
        settings = parse_settings(fields.get("voice_settings"))
        if settings is not None:
            config = replace(config, speed=speed_of(settings))
            config.check()
        return self.open_context(name, config, self._sender(name))

    def _sender(self, name: str | None, *, is_only: bool = False) -> ContextSender:
        is_absolute = self.websocket.query_params.get("sync_alignment") == "true"
        alignment = SocketAlignment(is_absolute=is_absolute)
        return ContextSender(
            self.send_queue, name, alignment, is_only=is_only or not self._is_multi
        )


def _name_of(fields: dict[str, Any]) -> Any:
    """Return the name of a message's context, on a socket with many."""
    name = fields.get("context_id", fields.get("contextId"))
    return _DEFAULT if name is None else name


def _inactivity(text: str | None) -> float:
    """Return the seconds of ``inactivity_timeout``; the default for what is no number of them."""
    seconds = whole_number(text)
    return _INACTIVITY if seconds is None else min(max(float(seconds), 1.0), _MOST_INACTIVITY)


def _text_of(fields: dict[str, Any]) -> str | None:
    """Return the text of a message; ``None`` where it has none."""
    return None if fields.get("text") is None else text_of(fields)


def _key_in(fields: dict[str, Any]) -> str | None:
    given = fields.get("xi_api_key") or fields.get("authorization")
    return given if is_text(given) else None
