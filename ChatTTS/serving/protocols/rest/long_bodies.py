"""Long bodies of JSON, which the event loop does not parse itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from ...speech.service import SpeechService

_LONG = 1 << 18  # bytes


def long_body_route(service: SpeechService) -> type[APIRoute]:
    """Return the class of routes whose bodies may have a recording in them."""

    class LongBodyRequest(Request):
        _whole: bytes | None = None

        async def body(self) -> bytes:
            """Return the body; one that comes as a whole is not copied."""
            if self._whole is None:
                parts = [part async for part in self.stream() if part]
                self._whole = parts[0] if len(parts) == 1 else b"".join(parts)
            return self._whole

        async def json(self) -> Any:
            body = await self.body()
            if len(body) < _LONG:
                return await super().json()
            return await service.in_parsing_thread(partial(json.loads, body))

    class LongBodyRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handler = super().get_route_handler()

            async def handled(request: Request) -> Response:
                return await handler(LongBodyRequest(request.scope, request.receive))

            return handled

    return LongBodyRoute
