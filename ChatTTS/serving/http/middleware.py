"""The ASGI middleware of every HTTP request: its id and errors, its authentication, its body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import (
    DeadlineError,
    RequestTooLargeError,
    ServingError,
    SlowRequestError,
    as_serving_error,
)
from ..observe.metrics import ServerMetrics
from ..observe.request_logs import log_failure, log_refusal
from ..requests.request import new_request_id
from .auth import Authenticator
from .origins import OriginPolicy

_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
# A client that still sends its body cannot read an answer, so this much of a body that is too long
# is read and dropped.
_MAX_DROPPED_BYTES = 16 << 20
_PART_BYTES = 1 << 16
# A longer body is read by a parser alone in a turn of the event loop.
_LONG_BODY = 1 << 16
# What stands between values, in JSON and in a form that is an address.
_VALUE_SIGNS = (b",", b"[", b"{", b"&")
_ESCAPE_BYTES = 6
_PERCENT_SIGNS = 4  # of a character of such a form, at most


class ErrorMiddleware:
    """Gives every request an id, and answers errors in the format of its protocol.

    A response that has started cannot become an error response. It is left unfinished, and the
    server then closes the connection, so that the client sees that it is incomplete.

    Args:
        app: what the middleware calls.
        metrics: counts the refused requests.
        interface: name of the protocol in logs.
        error_response: the protocol's answer to a request that failed.
        with_text: whether the log may contain texts.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: ServerMetrics,
        *,
        interface: str,
        error_response: Callable[[ServingError], Response],
        with_text: bool,
    ) -> None:
        self._app, self._metrics, self._with_text = app, metrics, with_text
        self._interface, self._error_response = interface, error_response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else new_request_id()
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        has_started = False

        async def send_with_id(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                MutableHeaders(scope=message)["x-request-id"] = request_id
                if "refusal" in state:
                    self._count_refusal(state["refusal"], scope)
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:  # the client gets an answer to any error
            answer = as_serving_error(error)
            if answer.status == 500:
                log_failure(f"request {request_id}", answer, with_text=self._with_text)
            if has_started:
                return
            if "was_counted" not in state:
                self._count_refusal(answer, scope)
            await self._error_response(answer)(scope, receive, send_with_id)

    def _count_refusal(self, error: ServingError, scope: Scope) -> None:
        self._metrics.count_refusal(error)
        state = scope["state"]
        address = scope.get("client") or ("unknown", 0)
        log_refusal(
            error,
            self._interface,
            client=state.get("client", str(address[0])),
            address=f"{scope['method']} {scope['path']}",
            request_id=state["request_id"],
        )


def bearer(headers: Mapping[str, str]) -> str | None:
    """Return the API key in the header ``Authorization``."""
    return headers.get("authorization")


class AuthMiddleware:
    """Checks the API key and the origin of requests, and notes the client's name in their state.

    Args:
        app: what the middleware calls.
        authenticator: checks the keys.
        is_public: returns whether a path needs no key.
        origins: checks the origins.
        key_of: returns the key that a request's headers give.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        is_public: Callable[[str], bool],
        origins: OriginPolicy,
        key_of: Callable[[Mapping[str, str]], str | None] = bearer,
    ) -> None:
        self._app, self._authenticator = app, authenticator
        self._is_public, self._origins, self._key_of = is_public, origins, key_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        headers = Headers(scope=scope) if scope["type"] == "http" else None
        if headers is not None:
            self._origins.check_name(headers)
        if headers is not None and not self._is_public(scope["path"]):
            self._origins.check_page(headers)
            address = scope.get("client") or ("unknown", 0)
            client = self._authenticator.client(self._key_of(headers), str(address[0]))
            scope.setdefault("state", {})["client"] = client
        await self._app(scope, receive, send)


FORM = "multipart/form-data"
"""The content type of forms with files."""


class BodyMiddleware:
    """Reads the body of a request up to a limit, and cancels the work of clients that disconnect.

    Args:
        app: what the middleware calls.
        most: returns the maximum number of bytes of a body, for a path.
        parts: returns the maximum number of values in a body that is no form with files. Parsers
            hold Python's lock, for seconds if a body has millions of values or escapes.
        seconds: time for a body to come.
        patience: seconds after which a stream is ended whose client does not read.
    """

    def __init__(
        self,
        app: ASGIApp,
        most: Callable[[str], int],
        parts: Callable[[str], int],
        seconds: float,
        patience: float,
    ) -> None:
        self._app, self._most, self._parts = app, most, parts
        self._seconds, self._patience = seconds, patience
        self._turns = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        # A route that gets any other kind may read it as JSON.
        is_form = Headers(scope=scope).get("content-type", "").lower().startswith(FORM)
        try:
            with anyio.fail_after(self._seconds):
                most_parts = None if is_form else self._parts(path)
                body = await self._read(receive, self._most(path), most_parts)
        except TimeoutError as error:
            raise SlowRequestError(
                f"the body did not arrive within {self._seconds:g} s, which is this server's limit"
            ) from error
        if body is None:
            return
        pieces = _pieces(body, self._turns, _PART_BYTES if is_form else len(body))
        await _BufferedRequest(pieces, receive, send, self._patience).run(self._app, scope)

    async def _read(self, receive: Receive, most: int, most_parts: int | None) -> bytes | None:
        """Return the body; ``None`` if the client disconnected before its end.

        Raises:
            RequestTooLargeError: the body is longer than ``most`` bytes, or has too many values.
        """
        parts: list[bytes] = []
        size, has_more = 0, True
        values = percents = escapes = 0
        while has_more and size <= most + _MAX_DROPPED_BYTES:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part: bytes = message.get("body", b"")
            has_more = message.get("more_body", False)
            size += len(part)
            parts.append(part)
            values += sum(map(part.count, _VALUE_SIGNS))
            percents += part.count(b"%")
            escapes += part.count(b"\\")
            if size > most:
                parts.clear()
        if size > most:
            raise RequestTooLargeError(
                f"the body is longer than {most} bytes, which is the limit here"
            )
        if most_parts is not None and values + percents // _PERCENT_SIGNS > most_parts:
            raise RequestTooLargeError(
                f"the body has more than {most_parts} commas and brackets, or & and %, which is "
                "this server's limit"
            )
        # Every letter may be escaped as \uXXXX, and every comma of a text be a line end.
        if most_parts is not None and escapes > most_parts + size // _ESCAPE_BYTES:
            raise RequestTooLargeError(f"the body has {escapes} escapes, which is too many")
        if size <= _LONG_BODY:
            return _joined(parts)
        async with self._turns:  # the system has to find the memory, which takes milliseconds
            return await asyncio.to_thread(_joined, parts)


def _joined(parts: Sequence[bytes]) -> bytes:
    """Return all parts; while Python joins more than 1 MiB, other threads go on."""
    return b"".join(parts)


async def _pieces(body: bytes, turns: asyncio.Lock, size: int) -> AsyncIterator[Message]:
    """Yield the messages of a body; a long one waits, so that the loop does not read two in a row.

    Args:
        turns: of all long bodies.
        size: bytes of a piece; the parser of forms takes long for many.
    """
    for start in range(0, max(1, len(body)), max(1, size)):
        if len(body) > _LONG_BODY:
            async with turns:
                await asyncio.sleep(0)
        end = start + size
        piece = body[start:end]
        yield {"type": "http.request", "body": piece, "more_body": end < len(body)}


class _BufferedRequest:
    """One request whose body has been read; its work is cancelled if the client disconnects."""

    def __init__(
        self, pieces: AsyncIterator[Message], receive: Receive, send: Send, patience: float
    ) -> None:
        self._pieces = pieces
        self._receive, self._send, self._patience = receive, send, patience
        self._has_answered = False
        self._disconnected = asyncio.Event()
        self._sending: _Sending | None = None
        self._look: asyncio.TimerHandle | None = None

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        work = asyncio.ensure_future(app(scope, self._receive_body, self._send_parts))
        watch = asyncio.ensure_future(self._watch())
        self._look_at_sending()
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not (work.done() or self._has_answered):
                work.cancel()
            await asyncio.wait({work})
            if not work.cancelled():
                work.result()
        finally:
            if self._look is not None:
                self._look.cancel()
            watch.cancel()
            work.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)

    async def _watch(self) -> None:
        """Wait until the client has disconnected."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._disconnected.set()

    def _look_at_sending(self) -> None:
        """Cancel a task that has sent one part for too long; look again when the next one may.

        One timer for a response costs less than a deadline for each of its parts.
        """
        loop = asyncio.get_running_loop()
        since = now = loop.time()
        if (sending := self._sending) is not None:
            since = sending.since
            if now - since >= self._patience:
                sending.is_stalled, since = True, now
                sending.task.cancel()
        self._look = loop.call_at(since + self._patience, self._look_at_sending)

    async def _receive_body(self) -> Message:
        piece = await anext(self._pieces, None)
        if piece is None:
            await self._disconnected.wait()
            return {"type": "http.disconnect"}
        return piece

    async def _send_parts(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._has_answered = True
        if not message.get("more_body", False):
            await self._send(message)
            return
        # Work that continues may hold a place for which other requests wait. Small parts show
        # whether a client reads slowly or not at all.
        body: bytes = message["body"]
        for start in range(0, len(body), _PART_BYTES):
            part = {**message, "body": body[start : start + _PART_BYTES]}
            self._sending = sending = _Sending()
            try:
                await self._send(part)
            except asyncio.CancelledError:
                if not sending.is_stalled:
                    raise
                reason = f"the client read nothing of the response for {self._patience:g} s"
                raise DeadlineError(reason) from None
            finally:
                self._sending = None


class _Sending:
    """A part that is being sent.

    Attributes:
        since: the beginning, on the loop's clock.
        task: the task that sends it.
        is_stalled: whether the task was cancelled because it took too long.
    """

    __slots__ = ("is_stalled", "since", "task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.since, self.task, self.is_stalled = task.get_loop().time(), task, False
