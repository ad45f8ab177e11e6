"""One socket: who it is, what it says, and the contexts that speak on it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from functools import partial
from typing import Any

from fastapi import WebSocket

from ..auth import Authenticator
from ..errors import AuthenticationError, BadRequestError, OverloadedError, as_serving_error
from ..request_logs import log_failure, log_refusal
from ..service import SpeechService
from .config import ContextConfig
from .context import Context
from .messages import (
    Append,
    Auth,
    Cancel,
    Configure,
    Done,
    Envelope,
    Flush,
    Message,
    decode,
    parse,
)
from .outbox import Channel, Ending, Outbox
from .player import Player
from .run import Run

# Codes of the closing frame. From 4000 on they are the program's own; these echo HTTP's.
NORMAL, TOO_BIG, TRY_LATER, UNAUTHORIZED, IDLE = 1000, 1009, 1013, 4401, 4408
_AUTH_SECONDS = 10.0
_CLOSING_SECONDS = 5.0
# JSON that takes longer to read than the event loop may be held up.
_LONG_MESSAGE = 1 << 16


class Session:
    """Serves one socket that was accepted.

    Args:
        gate: who may speak.
    """

    def __init__(self, websocket: WebSocket, service: SpeechService, gate: Authenticator) -> None:
        self._websocket, self._service, self._gate = websocket, service, gate
        self._limits = service.settings.limits
        self._outbox = Outbox(websocket)
        self._client = ""
        self._config = ContextConfig()
        self._contexts: dict[str | None, Context] = {}
        # What a context spoke last: it may still be heard when nothing is left to be sent.
        self._last_runs: OrderedDict[str | None, Run] = OrderedDict()
        self._has_names = False
        self._is_closing = False
        self._heard = time.monotonic()

    async def run(self) -> None:
        """Serve until either side ends it; all that it began is over then."""
        tasks = [asyncio.create_task(self._read(), name="socket")]
        tasks.append(asyncio.create_task(self._outbox.run(), name="socket's outbox"))
        tasks.append(asyncio.create_task(self._watch(), name="socket's watch"))
        ending = Ending()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            ending = next(iter(done)).result()
        finally:
            for task in tasks:
                task.cancel()
            cancels = [context.cancel() for context in self._contexts.values()]
            self._contexts = {}
            await asyncio.gather(asyncio.wait(tasks), *cancels)
        if ending.code is not None:
            await close(self._websocket, ending)

    # -- tasks -----------------------------------------------------------------------------

    async def _read(self) -> Ending:
        """Do what the client says."""
        if not await self._is_welcome():
            return Ending(UNAUTHORIZED, "an API key is needed, and was not given or is wrong")
        while (data := await self._receive()) is not None:
            if isinstance(data, Ending):
                return data
            envelope = Envelope()
            try:
                envelope = await self._decoded(data)
                await self._handle(parse(envelope), envelope.context_id)
            except AuthenticationError as error:
                return Ending(UNAUTHORIZED, str(error))
            except Exception as error:  # told to the client; the socket goes on
                told = as_serving_error(error)
                if told is not error and told.status >= 500:
                    with_text = self._service.settings.log_texts
                    log_failure("a message on a socket", told, with_text=with_text)
                elif told.status < 500:
                    log_refusal(told, "websocket", client=self._client)
                await self._channel(envelope.context_id).send_error(told)
        return Ending()

    async def _watch(self) -> Ending:
        """Wait until nothing has happened for too long, or the client has not read for too long."""
        most = self._limits.idle_seconds
        while True:
            now = time.monotonic()
            blocked = self._outbox.blocked_since
            if blocked is not None and now - blocked > most:
                return Ending()
            is_active = any(context.is_active for context in self._contexts.values())
            quiet = 0.0 if is_active else now - max(self._heard, self._outbox.last_written)
            if quiet >= most:
                return Ending(IDLE, f"nothing was said for {most:g} s")
            await asyncio.sleep(min(most - quiet, most / 4))

    async def _receive(self) -> str | Ending | None:
        """The text of the next message; ``None`` when the client is gone."""
        event = await self._websocket.receive()
        if event["type"] != "websocket.receive":
            return None
        self._heard = time.monotonic()
        text, most = event.get("text"), self._limits.message_bytes
        size = len(event.get("bytes") or b"") if text is None else _utf8_bytes(text, most)
        if size > most:
            return Ending(TOO_BIG, f"a message may have {most} bytes")
        return "" if text is None else str(text)

    async def _is_welcome(self) -> bool:
        """Whether the client has a key, in its request or in its first message."""
        socket = self._websocket
        address = socket.client.host if socket.client else ""
        key = socket.headers.get("authorization") or socket.query_params.get("api_key")
        try:
            if key is None and not self._gate.is_open:
                data = await asyncio.wait_for(self._receive(), _AUTH_SECONDS)
                message = parse(await self._decoded(data)) if isinstance(data, str) else None
                key = message.api_key if isinstance(message, Auth) else None
            self._client = self._gate.client(key, address)
        except (AuthenticationError, BadRequestError, asyncio.TimeoutError) as error:
            refusal = error
            if not isinstance(refusal, AuthenticationError):
                refusal = AuthenticationError("the first message must be session.auth")
            self._service.metrics.count_refusal(refusal)
            log_refusal(refusal, "websocket", client=address)
            return False
        return True

    # -- messages --------------------------------------------------------------------------

    async def _decoded(self, data: str) -> Envelope:
        if len(data) > _LONG_MESSAGE:
            return await self._service.in_thread(partial(decode, data))
        return decode(data)

    async def _handle(self, message: Message, name: str | None) -> None:
        if isinstance(message, Auth):
            address = self._websocket.client.host if self._websocket.client else ""
            self._gate.client(message.api_key, address)
        elif isinstance(message, Cancel):
            await self._cancel(name, message.played_samples)
        elif self._is_closing:
            raise BadRequestError("session.close was said: only input.cancel may follow")
        elif isinstance(message, Configure):
            await self._configure(name, message)
        elif isinstance(message, Append):
            await self._context(name).append(message.text)
        elif isinstance(message, Flush):
            self._context(name).flush()
        elif isinstance(message, Done):
            self._context(name).done()
        else:
            await self._close()

    async def _configure(self, name: str | None, message: Configure) -> None:
        """Change the settings of a context; those of the default one are for new ones as well."""
        fields: dict[str, Any] = dict(message.settings)
        config = self._config.changed(fields)
        if fields.get("voice") is not None:
            # It reads a file.
            await self._service.in_thread(partial(self._service.voices.parameters, config.voice))
        self._context(name).configure(fields)
        if name is None:
            self._config = config

    async def _cancel(self, name: str | None, played_samples: int | None) -> None:
        context = self._contexts.get(name)
        run = None if context is None else await context.cancel()
        sent = 0 if run is None else run.sent_samples
        if run is None and played_samples is not None:
            run = self._last_runs.get(name)
        heard = None if run is None else run.heard(played_samples)
        channel = self._channel(name)
        await channel.send(
            "audio.cancelled",
            sent_samples=sent,
            spoken_text="" if heard is None else heard.text,
            is_exact=heard is None or heard.is_exact,
        )
        if context is not None and context.is_done:
            await channel.send("session.done")
            await self._ended(name)

    async def _close(self) -> None:
        self._is_closing = True
        for context in self._contexts.values():
            if not context.is_done:
                context.done()
        if not self._contexts:
            await self._outbox.end(Ending(NORMAL, "all was said"))

    # -- contexts --------------------------------------------------------------------------

    def _context(self, name: str | None) -> Context:
        """The context of this name; a new one where there is none.

        Raises:
            OverloadedError: there are too many.
        """
        context = self._contexts.get(name)
        if context is not None:
            return context
        most = self._limits.contexts
        if len(self._contexts) >= most:
            raise OverloadedError(
                f"{most} contexts speak on this socket, which is the limit: end one by input.done",
                own_limit=True,
            )
        self._has_names |= name is not None
        channel = self._channel(name)
        finished, ended = partial(self._finished, name), partial(self._ended, name)
        player = Player(self._service, self._client, channel, finished, ended)
        context = self._contexts[name] = Context(self._service, self._config, player)
        return context

    def _channel(self, name: str | None) -> Channel:
        return Channel(self._outbox, name, lambda: self._has_names or self._config.framing)

    def _finished(self, name: str | None, run: Run) -> None:
        self._last_runs[name] = run
        self._last_runs.move_to_end(name)
        if len(self._last_runs) > self._limits.contexts:
            self._last_runs.popitem(last=False)

    async def _ended(self, name: str | None) -> None:
        self._contexts.pop(name, None)
        if self._is_closing and not self._contexts:
            await self._outbox.end(Ending(NORMAL, "all was said"))


async def close(websocket: WebSocket, ending: Ending) -> None:
    """Send the closing frame, if the client still reads."""
    # A socket that was closed meanwhile, from either side, cannot be closed again.
    with contextlib.suppress(RuntimeError, OSError, asyncio.TimeoutError):
        closing = websocket.close(ending.code or NORMAL, ending.reason)
        await asyncio.wait_for(closing, _CLOSING_SECONDS)


def _utf8_bytes(text: str, most: int) -> int:
    """The length of a text, exactly where it is near ``most``."""
    return len(text) if len(text) > most else len(text.encode("utf-8", "surrogatepass"))
