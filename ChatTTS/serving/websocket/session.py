"""One socket: its authentication, its messages, and the contexts that speak on it."""

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
from ..words import word_fields
from .config import ContextConfig
from .context import Context
from .messages import (
    Append,
    Auth,
    Cancel,
    Configure,
    Done,
    Flush,
    Message,
    context_of,
    decode,
    parse,
)
from .run import Run
from .send_queue import ContextSender, SendQueue, SocketClose
from .speech_queue import SpeechQueue

# Codes of the closing frame. Those from 4000 on are application-defined; these echo HTTP's.
NORMAL, TOO_BIG, TRY_LATER, UNAUTHORIZED, IDLE = 1000, 1009, 1013, 4401, 4408
_AUTH_SECONDS = 10.0
_CLOSING_SECONDS = 5.0
# Longer JSON is parsed in a thread, since it would block the event loop for too long.
_LONG_MESSAGE = 1 << 16
_ALL_SAID = SocketClose(NORMAL, "all was said")


class Session:
    """Serves one accepted socket.

    Args:
        authenticator: authenticates the client.
    """

    def __init__(
        self, websocket: WebSocket, service: SpeechService, authenticator: Authenticator
    ) -> None:
        self._websocket, self._service, self._authenticator = websocket, service, authenticator
        self._limits = service.settings.limits
        self._send_queue = SendQueue(websocket)
        self._client = ""
        self._config = ContextConfig()
        self._contexts: dict[str | None, Context] = {}
        # The last run of each context: the client may still play it after all of it was sent.
        self._last_runs: OrderedDict[str | None, Run] = OrderedDict()
        self._has_named_contexts = False
        self._is_closing = False
        self._last_received = time.monotonic()

    async def run(self) -> None:
        """Serve until either side closes the socket; then all work of its contexts has ended."""
        tasks = [asyncio.create_task(self._read(), name="socket")]
        tasks.append(asyncio.create_task(self._send_queue.run(), name="socket's send queue"))
        tasks.append(asyncio.create_task(self._watch(), name="socket's watch"))
        closing = SocketClose()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            closing = next(iter(done)).result()
        finally:
            for task in tasks:
                task.cancel()
            cancels = [context.cancel() for context in self._contexts.values()]
            self._contexts = {}
            await asyncio.gather(asyncio.wait(tasks), *cancels)
        if closing.code is not None:
            await close(self._websocket, closing)

    # -- tasks -----------------------------------------------------------------------------

    async def _read(self) -> SocketClose:
        """Handle the client's messages."""
        if not await self._authenticate():
            return SocketClose(UNAUTHORIZED, "an API key is needed, and was not given or is wrong")
        while (data := await self._receive()) is not None:
            if isinstance(data, SocketClose):
                return data
            fields: dict[str, Any] = {}
            try:
                fields = await self._decode(data)
                await self._handle(parse(fields), context_of(fields))
            except AuthenticationError as error:
                return SocketClose(UNAUTHORIZED, str(error))
            except Exception as error:  # sent to the client; the socket goes on
                failure = as_serving_error(error)
                if failure is not error and failure.status >= 500:
                    with_text = self._service.settings.log_texts
                    log_failure("a message on a socket", failure, with_text=with_text)
                elif failure.status < 500:
                    log_refusal(failure, "websocket", client=self._client)
                await self._sender(context_of(fields)).send_error(failure)
        return SocketClose()

    async def _watch(self) -> SocketClose:
        """Wait until the socket was idle for too long, or the client has not read for too long."""
        most = self._limits.idle_seconds
        while True:
            now = time.monotonic()
            blocked = self._send_queue.blocked_since
            if blocked is not None and now - blocked > most:
                return SocketClose()
            is_active = any(context.is_active for context in self._contexts.values())
            last_event = max(self._last_received, self._send_queue.last_written)
            idle = 0.0 if is_active else now - last_event
            if idle >= most:
                return SocketClose(IDLE, f"nothing was said for {most:g} s")
            await asyncio.sleep(min(most - idle, most / 4))

    async def _receive(self) -> str | SocketClose | None:
        """Return the text of the next message; ``None`` when the client is gone."""
        event = await self._websocket.receive()
        if event["type"] != "websocket.receive":
            return None
        self._last_received = time.monotonic()
        text, most = event.get("text"), self._limits.message_bytes
        size = len(event.get("bytes") or b"") if text is None else _utf8_bytes(text, most)
        if size > most:
            return SocketClose(TOO_BIG, f"a message may have {most} bytes")
        return "" if text is None else str(text)

    async def _authenticate(self) -> bool:
        """Return whether the client has a valid key, in its request or in its first message."""
        socket = self._websocket
        key = socket.headers.get("authorization") or socket.query_params.get("api_key")
        try:
            if key is None and not self._authenticator.is_open:
                data = await asyncio.wait_for(self._receive(), _AUTH_SECONDS)
                message = parse(await self._decode(data)) if isinstance(data, str) else None
                key = message.api_key if isinstance(message, Auth) else None
            self._client = self._authenticator.client(key, host_of(socket))
        except (AuthenticationError, BadRequestError, asyncio.TimeoutError) as error:
            refusal = error
            if not isinstance(refusal, AuthenticationError):
                refusal = AuthenticationError("the first message must be session.auth")
            self._service.metrics.count_refusal(refusal)
            log_refusal(refusal, "websocket", client=host_of(socket))
            return False
        return True

    # -- messages --------------------------------------------------------------------------

    async def _decode(self, data: str) -> dict[str, Any]:
        if len(data) > _LONG_MESSAGE:
            return await self._service.in_thread(partial(decode, data))
        return decode(data)

    async def _handle(self, message: Message, name: str | None) -> None:
        if isinstance(message, Auth):
            self._authenticator.client(message.api_key, host_of(self._websocket))
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
        """Change a context's settings; those of the default context also apply to new ones."""
        fields: dict[str, Any] = dict(message.settings)
        config = self._config.updated(fields)
        if config.word_times:
            self._service.check_word_times("word_times")
        if config.tells_faults:
            self._service.check_word_times("guard")
        if fields.get("voice") is not None:
            # Checking a voice reads a file.
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
            await self._remove_context(name)

    async def _close(self) -> None:
        self._is_closing = True
        for context in self._contexts.values():
            if not context.is_done:
                context.done()
        if not self._contexts:
            await self._send_queue.close(_ALL_SAID)

    # -- contexts --------------------------------------------------------------------------

    def _context(self, name: str | None) -> Context:
        """Return the context of this name, which is created if there is none.

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
        self._has_named_contexts |= name is not None
        speech_queue = SpeechQueue(
            self._service,
            self._client,
            self._sender(name),
            on_run_finished=partial(self._remember_run, name),
            on_context_ended=partial(self._remove_context, name),
        )
        context = self._contexts[name] = Context(self._service, self._config, speech_queue)
        return context

    def _sender(self, name: str | None) -> ContextSender:
        def needs_framing() -> bool:
            return self._has_named_contexts or self._config.framing

        return ContextSender(self._send_queue, name, needs_framing)

    def _remember_run(self, name: str | None, run: Run) -> None:
        self._last_runs[name] = run
        self._last_runs.move_to_end(name)
        if len(self._last_runs) > self._limits.contexts:
            self._last_runs.popitem(last=False)

    async def _remove_context(self, name: str | None) -> None:
        self._contexts.pop(name, None)
        if self._is_closing and not self._contexts:
            await self._send_queue.close(_ALL_SAID)


async def close(websocket: WebSocket, closing: SocketClose) -> None:
    """Send the closing frame, unless the client does not read it in time."""
    # Closing fails on a socket that either side has closed meanwhile.
    with contextlib.suppress(RuntimeError, OSError, asyncio.TimeoutError):
        frame = websocket.close(closing.code or NORMAL, closing.reason)
        await asyncio.wait_for(frame, _CLOSING_SECONDS)


def host_of(websocket: WebSocket) -> str:
    """Return the client's address, or an empty string where it is unknown."""
    return websocket.client.host if websocket.client else ""


def _utf8_bytes(text: str, most: int) -> int:
    """Return the length of a text in UTF-8, or a lower bound above ``most``."""
    return len(text) if len(text) > most else len(text.encode("utf-8", "surrogatepass"))
