"""What every HTTP request passes: its name, its errors, its key, its body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..auth import Authenticator
from ..errors import (
    DeadlineError,
    RequestTooLargeError,
    ServingError,
    SlowRequestError,
    as_serving_error,
)
from ..metrics import ServerMetrics
from ..origins import OriginPolicy
from ..request_logs import log_failure, log_refusal
from ..requests import new_request_id
from .errors import error_response

_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
# Whoever still sends cannot read an answer: so much of a body that is too long is read and dropped.
_DROPPED = 16 << 20
_PART_BYTES = 1 << 16


class ErrorMiddleware:
    """Gives every request its id, and answers its errors in OpenAI's shape.

    An answer that has begun cannot become an error: it is left unfinished, upon which the server
    breaks the connection off, so that nobody takes it for the whole.

    Args:
        app: what answers otherwise.
        metrics: told of those that are refused.
        with_text: whether texts may stand in the log.
    """

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, *, with_text: bool) -> None:
        self._app, self._metrics, self._with_text = app, metrics, with_text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else new_request_id()
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        has_started = False

        async def send_named(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                MutableHeaders(scope=message)["x-request-id"] = request_id
                if "refusal" in state:
                    self._refused(state["refusal"], scope)
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        except Exception as error:  # whatever it is, the client gets an answer
            answer = as_serving_error(error)
            if answer.status == 500:
                log_failure(f"request {request_id}", answer, with_text=self._with_text)
            if has_started:
                return
            if "taken" not in state:
                self._refused(answer, scope)
            await error_response(answer)(scope, receive, send_named)

    def _refused(self, error: ServingError, scope: Scope) -> None:
        self._metrics.count_refusal(error)
        state = scope["state"]
        address = scope.get("client") or ("unknown", 0)
        log_refusal(
            error,
            "rest",
            client=state.get("client", str(address[0])),
            address=f"{scope['method']} {scope['path']}",
            request_id=state["request_id"],
        )


class AuthMiddleware:
    """Asks for a key where one is needed, keeps foreign pages out, and says who the client is.

    Args:
        app: what answers.
        gate: who may ask.
        is_public: whether an address needs no key.
        pages: which pages may.
    """

    def __init__(
        self,
        app: ASGIApp,
        gate: Authenticator,
        is_public: Callable[[str], bool],
        pages: OriginPolicy,
    ) -> None:
        self._app, self._gate, self._is_public, self._pages = app, gate, is_public, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        headers = Headers(scope=scope) if scope["type"] == "http" else None
        if headers is not None:
            self._pages.check_name(headers)
        if headers is not None and not self._is_public(scope["path"]):
            self._pages.check_request(scope["method"], scope["path"], headers)
            address = scope.get("client") or ("unknown", 0)
            client = self._gate.client(headers.get("authorization"), str(address[0]))
            scope.setdefault("state", {})["client"] = client
        await self._app(scope, receive, send)


class BodyMiddleware:
    """Reads the body, up to a limit, and ends the work of clients that go away.

    Args:
        app: what answers.
        most: bytes of a body, by the address.
        parts: commas and brackets of a body that is no form. Whoever reads JSON holds all threads
            meanwhile, for seconds if millions of values fill the place of a recording.
        seconds: in which a body must have come.
        patience: seconds after which a client that takes nothing of a stream is cut off.
    """

    def __init__(
        self,
        app: ASGIApp,
        most: Callable[[str], int],
        parts: int,
        seconds: float,
        patience: float,
    ) -> None:
        self._app, self._most, self._parts = app, most, parts
        self._seconds, self._patience = seconds, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            with anyio.fail_after(self._seconds):
                body = await self._read(receive, self._most(scope["path"]))
        except TimeoutError as error:
            raise SlowRequestError(
                f"the body did not come within {self._seconds:g} s, which is this server's limit"
            ) from error
        if body is None:
            return
        if not Headers(scope=scope).get("content-type", "").startswith("multipart/"):
            self._check_parts(body)
        await _BufferedRequest(body, receive, send, self._patience).run(self._app, scope)

    async def _read(self, receive: Receive, most: int) -> bytes | None:
        """The body; ``None`` if the client went away before its end.

        Raises:
            RequestTooLargeError: it is longer than ``most`` bytes.
        """
        parts: list[bytes] = []
        size, has_more = 0, True
        while has_more and size <= most + _DROPPED:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part: bytes = message.get("body", b"")
            has_more = message.get("more_body", False)
            size += len(part)
            parts.append(part)
            if size > most:
                parts.clear()
        if size > most:
            raise RequestTooLargeError(
                f"the body is longer than {most} bytes, which is this server's limit here"
            )
        return b"".join(parts)

    def _check_parts(self, body: bytes) -> None:
        if sum(body.count(sign) for sign in b",[{") > self._parts:
            raise RequestTooLargeError(
                f"the body has more than {self._parts} commas and brackets, which is this server's "
                "limit"
            )


class _BufferedRequest:
    """One request whose body is there; its work is cancelled when the client goes away."""

    def __init__(self, body: bytes, receive: Receive, send: Send, patience: float) -> None:
        self._body: bytes | None = body
        self._receive, self._send, self._patience = receive, send, patience
        self._has_answered = False
        self._is_gone = asyncio.Event()

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        work = asyncio.ensure_future(app(scope, self._give, self._pass))
        watch = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not (work.done() or self._has_answered):
                work.cancel()
            await asyncio.wait({work})
            if not work.cancelled():
                work.result()
        finally:
            watch.cancel()
            work.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)

    async def _watch(self) -> None:
        """Until the client is gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_gone.set()

    async def _give(self) -> Message:
        if self._body is None:
            await self._is_gone.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _pass(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._has_answered = True
        if not message.get("more_body", False):
            await self._send(message)
            return
        # Work that goes on may hold a place, for which others wait. Small parts tell a client that
        # is slow from one that takes nothing.
        body: bytes = message["body"]
        for start in range(0, len(body), _PART_BYTES):
            part = {**message, "body": body[start : start + _PART_BYTES]}
            try:
                with anyio.fail_after(self._patience):
                    await self._send(part)
            except TimeoutError as error:
                reason = f"the client took nothing of its answer for {self._patience:g} s"
                raise DeadlineError(reason) from error
