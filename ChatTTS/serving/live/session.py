"""One socket, whatever its protocol: its messages, its contexts, its limits and its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from ..errors import (
    AuthenticationError,
    BadRequestError,
    OverloadedError,
    ServingError,
    as_serving_error,
)
from ..http.auth import Authenticator
from ..http.bodies import json_object
from ..observe.request_logs import log_failure, log_refusal
from ..speech.config import RunConfig
from ..speech.service import SpeechService
from .context import Context
from .listener import Listener
from .run import Run
from .send_queue import ALL_SAID, SendQueue, SocketClose
from .speech_queue import SpeechQueue

NORMAL, TOO_BIG, TRY_LATER, IDLE = 1000, 1009, 1013, 4408
"""Codes of the closing frame. Those from 4000 on are application-defined; these echo HTTP's."""
_AUTH_SECONDS, _CLOSING_SECONDS = 10.0, 5.0
_REASON_BYTES = 123  # of a closing frame
# Longer JSON is parsed in a thread, since it would block the event loop for too long.
_LONG_MESSAGE = 1 << 16


class SocketSession(ABC):
    """Serves one accepted socket; a subclass knows the messages of its protocol.

    Args:
        interface: name of the protocol in logs.
        client: name of the client, if its key was checked in the handshake.

    Attributes:
        websocket, service, interface: as above.
        limits: of the server.
        send_queue: writes to the socket.
        client: name of the client, once it is known.
        contexts: what speaks on this socket, by name.
        is_closing: whether the socket is closed after its last context.
        context_seconds: time after which a context ends that speaks nothing and gets no message;
            ``None`` for never.
    """

    def __init__(
        self, websocket: WebSocket, service: SpeechService, interface: str, client: str = ""
    ) -> None:
        self.websocket, self.service, self.interface = websocket, service, interface
        self.limits = service.settings.limits
        self.send_queue = SendQueue(websocket)
        self.client = client
        self.contexts: dict[str | None, Context] = {}
        self.is_closing = False
        self.context_seconds: float | None = None
        self._last_received = time.monotonic()

    async def begin(self) -> SocketClose | None:
        """Find out which client it is, or greet it; return how to close the socket otherwise."""
        return None

    @abstractmethod
    async def answer(self, fields: dict[str, Any]) -> SocketClose | None:
        """Do what a message wants; return how to close the socket if it is to be closed now."""

    @abstractmethod
    async def tell(self, error: ServingError, fields: dict[str, Any] | None) -> None:
        """Tell the client an error of a message with these fields; ``None`` if it has none."""

    async def handle(self, data: str) -> SocketClose | None:
        """Answer a message, or tell its error; a binary message is an empty text."""
        fields: dict[str, Any] | None = None
        try:
            fields = await self.decode(data)
            return await self.answer(fields)
        except Exception as error:  # told to the client
            await self.tell(self.noted(error), fields)
        return None

    async def run(self) -> None:
        """Serve until either side closes the socket; then all work of its contexts has ended."""
        tasks = [asyncio.create_task(self._read(), name="socket")]
        tasks.append(asyncio.create_task(self.send_queue.run(), name="socket's send queue"))
        tasks.append(asyncio.create_task(self._watch(), name="socket's watch"))
        closing = SocketClose()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            closing = next(iter(done)).result()
        finally:
            for task in tasks:
                task.cancel()
            cancels = [context.cancel() for context in self.contexts.values()]
            self.contexts = {}
            await asyncio.gather(asyncio.wait(tasks), *cancels)
        if closing.code is not None:
            await close(self.websocket, closing)

    async def receive(self) -> str | SocketClose | None:
        """Return the text of the next message; ``None`` when the client is gone."""
        event = await self.websocket.receive()
        if event["type"] != "websocket.receive":
            return None
        self._last_received = time.monotonic()
        text, most = event.get("text"), self.limits.message_bytes
        size = len(event.get("bytes") or b"") if text is None else _utf8_bytes(text, most)
        if size > most:
            return SocketClose(TOO_BIG, f"a message may have {most} bytes")
        return "" if text is None else str(text)

    async def decode(self, data: str) -> dict[str, Any]:
        """Return the fields of a message of JSON, not yet checked.

        Raises:
            BadRequestError: it is not a JSON object.
        """
        parsed = partial(json_object, data, "the message")
        if len(data) > _LONG_MESSAGE:
            return await self.service.in_parsing_thread(parsed)
        return parsed()

    def noted(self, error: Exception) -> ServingError:
        """Log the failure of a message; return the error that the client is told."""
        failure = as_serving_error(error)
        if failure is not error and failure.status >= 500:
            with_text = self.service.settings.log_texts
            log_failure("a message on a socket", failure, with_text=with_text)
        elif failure.status < 500:
            log_refusal(failure, self.interface, client=self.client)
        return failure

    def refused(self, error: ServingError) -> None:
        """Count and log that the client may not use this socket."""
        self.service.metrics.count_refusal(error)
        log_refusal(error, self.interface, client=host_of(self.websocket))

    async def identify(
        self,
        authenticator: Authenticator,
        key: str | None,
        key_of: Callable[[dict[str, Any]], str | None],
        missing: str,
    ) -> str | SocketClose | None:
        """Set the client by the key of its request or, where it gave none, of its first message.

        Args:
            authenticator: knows the keys; without any, no message is read.
            key: of the request.
            key_of: returns the key of a message's fields; may raise BadRequestError.
            missing: says how to send a key.

        Returns:
            The first message, if it was read; or how to close the socket if none came.

        Raises:
            AuthenticationError: there is no valid key; it is logged and counted.
        """
        first: str | SocketClose | None = None
        try:
            if key is None and not authenticator.is_open:
                first = await asyncio.wait_for(self.receive(), _AUTH_SECONDS)
                if not isinstance(first, str):
                    return first or SocketClose()
                key = key_of(await self.decode(first))
            self.client = authenticator.client(key, host_of(self.websocket))
        except AuthenticationError as error:
            self.refused(error)
            raise
        except (BadRequestError, asyncio.TimeoutError) as error:
            refusal = AuthenticationError(missing)
            self.refused(refusal)
            raise refusal from error
        return first

    async def check_voice(self, config: RunConfig) -> None:
        """Raise ServingError if there is no such voice; reads a file."""
        if config.voice is not None:
            await self.service.in_thread(partial(self.service.voices.parameters, config.voice))

    def open_context(
        self,
        name: str | None,
        config: RunConfig,
        listener: Listener,
        on_run_finished: Callable[[Run], None] = lambda run: None,
        *,
        skips_silence: bool = True,
    ) -> Context:
        """Return a new context, which is in ``contexts`` until it has ended.

        Args:
            skips_silence: see :class:`.speech_queue.SpeechQueue`.

        Raises:
            OverloadedError: there are too many.
        """
        most = self.limits.contexts
        if len(self.contexts) >= most:
            raise OverloadedError(
                f"{most} contexts are already open on this socket, which is the limit: close one "
                "of them",
                own_limit=True,
            )
        speech_queue = SpeechQueue(
            self.service,
            self.client,
            listener,
            on_run_finished=on_run_finished,
            on_context_ended=partial(self.remove_context, name),
            skips_silence=skips_silence,
        )
        context = self.contexts[name] = Context(self.service, config, speech_queue)
        return context

    async def remove_context(self, name: str | None) -> None:
        """Forget a context that has ended; the socket is closed if it waits for the last one."""
        self.contexts.pop(name, None)
        if self.is_closing and not self.contexts:
            await self.send_queue.close(ALL_SAID)

    async def close_when_said(self) -> None:
        """End all contexts, and close the socket after the last one."""
        self.is_closing = True
        for context in self.contexts.values():
            if not context.is_done:
                context.done()
        if not self.contexts:
            await self.send_queue.close(ALL_SAID)

    async def _read(self) -> SocketClose:
        closing = await self.begin()
        while closing is None:
            data = await self.receive()
            if data is None:
                return SocketClose()
            if self.send_queue.is_closing:
                continue  # what comes now is too late
            closing = data if isinstance(data, SocketClose) else await self.handle(data)
            await asyncio.sleep(0)  # messages that have come already are received without a pause
        return closing

    async def _watch(self) -> SocketClose:
        """Wait until the socket was idle for too long, or the client has not read for too long."""
        most = self.limits.idle_seconds
        pause = min(most, self.context_seconds or most, self.limits.stalled_seconds) / 4
        while True:
            now = time.monotonic()
            self._end_unused(now)
            blocked = self.send_queue.blocked_since
            if blocked is not None and now - blocked > self.limits.stalled_seconds:
                return SocketClose()
            is_active = any(context.is_active for context in self.contexts.values())
            last_event = max(self._last_received, self.send_queue.last_written)
            idle = 0.0 if is_active else now - last_event
            if idle >= most:
                return SocketClose(IDLE, f"no message arrived for {most:g} s")
            await asyncio.sleep(min(most - idle, pause))

    def _end_unused(self, now: float) -> None:
        """End the contexts that their client has left, so that they take no place for ever."""
        for context in list(self.contexts.values()):
            if context.is_active:
                context.touch()
                continue
            unused = now - context.last_used
            most = self.context_seconds
            if most is not None and unused >= most and not context.is_done:
                context.done()


async def close(websocket: WebSocket, closing: SocketClose) -> None:
    """Send the closing frame, unless the client does not read it in time."""
    # Closing fails on a socket that either side has closed meanwhile.
    with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError, asyncio.TimeoutError):
        frame = websocket.close(closing.code or NORMAL, closing.reason)
        await asyncio.wait_for(frame, _CLOSING_SECONDS)


def closing_reason(error: ServingError) -> str:
    """Return the words of an error, as much of them as a closing frame may have."""
    return str(error).encode("ascii", "replace")[:_REASON_BYTES].decode()


def host_of(websocket: WebSocket) -> str:
    """Return the client's address, or an empty string where it is unknown."""
    return websocket.client.host if websocket.client else ""


def _utf8_bytes(text: str, most: int) -> int:
    """Return the length of a text in UTF-8, or a lower bound above ``most``."""
    return len(text) if len(text) > most else len(text.encode("utf-8", "surrogatepass"))
