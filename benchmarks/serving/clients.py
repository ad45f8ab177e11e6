"""Clients that ask a server for streamed speech, each request on a connection of its own."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from .listening import Listening

_PATIENCE = 300.0
_SIZE = 4  # bytes of the size behind the name of a chunk of RIFF


@dataclass(frozen=True)
class Asked:
    """A text, and the seed of its speech."""

    text: str
    seed: int


Ask = Callable[[Asked], Awaitable[Listening]]
"""Asks, reads the answer to its end, and returns it; an error is in the answer."""


def by_rest(
    url: str,
    fields: Mapping[str, Any],
    *,
    with_seed: bool = True,
    headers: Mapping[str, str] | None = None,
) -> Ask:
    """Return how to ask the route of OpenAI for sound as it is made.

    Args:
        url: of the server, before ``/v1``.
        fields: of the body, besides text and seed. ``response_format`` is ``pcm`` if it is left
            out, and may be ``wav``.
        with_seed: whether the server knows seeds; peers do not.
        headers: of each request, such as a key.
    """

    # Made once: it takes 30 ms, in which the server has one core less.
    context = ssl.create_default_context()

    async def ask(asked: Asked) -> Listening:
        body = {"response_format": "pcm", **fields, "input": asked.text}
        if with_seed:
            body["seed"] = asked.seed
        heard = Listening()
        try:
            async with (
                httpx.AsyncClient(timeout=_PATIENCE, verify=context, headers=headers) as client,
                client.stream("POST", f"{url}/v1/audio/speech", json=body) as answer,
            ):
                if answer.status_code != 200:
                    await answer.aread()
                    heard.error = str(answer.status_code)
                    heard.retry_after = answer.headers.get("retry-after")
                    return heard
                header = b"" if body["response_format"] == "wav" else None
                async for part in answer.aiter_raw():
                    if header is not None:  # not yet whole
                        header += part
                        _, _, part = header.partition(b"data")
                        if len(part) < _SIZE:
                            continue
                        header, part = None, part[_SIZE:]
                    heard.hear(part)
        except httpx.HTTPError as error:
            heard.error = f"{type(error).__name__}: {error}"
        return heard

    return ask


def by_websocket(url: str, fields: Mapping[str, Any]) -> Ask:
    """Return how to ask the WebSocket that takes text as it is written.

    Args:
        url: of the server.
        fields: of the first message, besides the seed.
    """
    address = url.replace("http", "ws", 1) + "/v1/audio/speech/stream"

    async def ask(asked: Asked) -> Listening:
        messages = (
            {"type": "session.config", **fields, "seed": asked.seed},
            {"type": "input.text", "text": asked.text},
            {"type": "input.done"},
        )
        heard = Listening()
        try:
            async with connect(address, proxy=None, open_timeout=_PATIENCE) as client:
                for asking in messages:
                    await client.send(json.dumps(asking))
                async for message in client:
                    if isinstance(message, bytes):
                        heard.hear(message)
                        continue
                    told = json.loads(message)
                    if told["type"] == "error":
                        heard.error = str(told.get("error") or told)
                    if told["type"] in ("session.done", "error"):
                        break
        except (OSError, WebSocketException) as error:
            heard.error = f"{type(error).__name__}: {error}"
        return heard

    return ask


def by_wyoming(port: int, voice: str | None) -> Ask:
    """Return how to ask the Wyoming interface on a port of this machine."""

    async def ask(asked: Asked) -> Listening:
        from wyoming.client import AsyncTcpClient
        from wyoming.tts import Synthesize, SynthesizeVoice

        heard = Listening()
        try:
            async with AsyncTcpClient("127.0.0.1", port) as client:
                named = SynthesizeVoice(name=voice) if voice else None
                text = Synthesize(asked.text, named, context={"seed": asked.seed})
                await client.write_event(text.event())
                heard.error = "the connection ended before the sound did"
                while (event := await client.read_event()) is not None:
                    if event.type == "audio-chunk":
                        heard.hear(event.payload or b"")
                    elif event.type == "error":
                        heard.error = str(event.data.get("text"))
                        break
                    elif event.type == "audio-stop":
                        heard.error = None
                        break
        except (OSError, asyncio.IncompleteReadError) as error:
            heard.error = f"{type(error).__name__}: {error}"
        return heard

    return ask
