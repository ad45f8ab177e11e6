"""The modules and checks that interfaces make at their first use, made before a client comes.

FastAPI makes the checks of all routes at the first request. Other clients would wait as well, since
an import holds Python's lock.
"""

from __future__ import annotations

import asyncio
import codecs
from importlib.util import find_spec

from fastapi import FastAPI
from starlette.types import Message

from ..encoding import Encoder, Format
from ..encoding.formats import HIGHEST_RATE
from ..requests.segments import read_marked
from .warm_up import sound

_SPEED = 1.1
_SAMPLES = 1000
_HEALTH = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "GET",
    "scheme": "http",
    "path": "/health",
    "raw_path": b"/health",
    "root_path": "",
    "query_string": b"",
    "headers": [(b"host", b"localhost")],
    "client": ("127.0.0.1", 0),
    "server": ("127.0.0.1", 0),
}


async def open_app(app: FastAPI) -> None:
    """Describe an app in OpenAPI, and ask for its health; call it before the app is served.

    Both make what FastAPI makes only once, which takes a tenth of a second.
    """

    messages = [{"type": "http.request", "body": b"", "more_body": False}]
    is_answered = asyncio.Event()

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await is_answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if not message.get("more_body", message["type"] == "http.response.start"):
            is_answered.set()

    app.openapi()
    await app({**_HEALTH, "state": {}}, receive, send)


def load_readers_and_codecs() -> None:
    """Read SSML, and encode in all formats, for which modules are imported."""
    codecs.lookup("utf-8-sig")  # of scripts
    if find_spec("lxml") is not None:  # the extra serve has none: then only SSML is refused
        read_marked("<speak>Hello.</speak>")
    for format in Format:
        encoder = Encoder(format, HIGHEST_RATE, _SPEED)
        encoder.push(sound()[:_SAMPLES])
        encoder.finish()
