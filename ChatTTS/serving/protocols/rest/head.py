"""``HEAD``: the answer of ``GET`` without its body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_STATE = "is_head"  # key of the request's state


class HeadMiddleware:
    """Answers ``HEAD`` as the routes answer ``GET``, without the body.

    Args:
        app: the next layer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        scope.setdefault("state", {})[_STATE] = True
        await self._app({**scope, "method": "GET"}, receive, send_without_body)


def is_head(scope: Scope) -> bool:
    """Return whether the client asked for the head of an answer alone."""
    return scope.get("state", {}).get(_STATE, False) is True
