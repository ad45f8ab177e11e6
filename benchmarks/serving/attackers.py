"""Clients that mean harm, each in a loop until the time is up, in a process of their own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

_SPEECH, _JOBS, _LIVE = "/v1/audio/speech", "/v1/audio/scripts", "/v1/audio/speech/stream"
_LONG = 3500  # characters of a text that is asked for and not heard
_PAUSE = 0.02
_ERRORS = (httpx.HTTPError, OSError, WebSocketException, asyncio.TimeoutError)


def _filled(head: bytes, part: bytes, tail: bytes, size: int) -> bytes:
    """Return a body of about ``size`` bytes: ``part`` again and again between its ends."""
    return head + part * ((size - len(head) - len(tail)) // len(part)) + tail


def bodies() -> list[tuple[str, bytes]]:
    """Return paths and bodies of JSON that take long to parse, split or read aloud."""
    large, text = 4 << 20, 9000
    return [
        (_SPEECH, _filled(b'{"input":"', b"\\n", b'"}', large)),
        (_SPEECH, _filled(b"{", b" ", b"}", large)),
        (_SPEECH, _filled(b'{"input":"a","seed":', b"1", b"}", large)),
        (_SPEECH, _filled(b'{"input":"', b"000,", b'"}', text)),
        (_SPEECH, _filled(b'{"input":"<speak>', b"<s>a</s>", b'</speak>"}', text)),
        (_SPEECH, _filled(b'{"input":"a","ref_text":"a","ref_audio":"', b"QUJD", b'"}', large)),
        (_SPEECH + "/batch", _filled(b'{"items":[', b"{},", b"{}]}", 1 << 20)),
        (_JOBS, _filled(b'{"format":"srt","script":"', b"1\\n", b'"}', 2 << 20)),
        (_JOBS, _filled(b'{"format":"srt","script":"', b"<v ", b'"}', 2 << 20)),
        (_JOBS, _filled(b'{"format":"markdown","script":"# a', b" ", b'x"}', 2 << 20)),
        (_JOBS, _filled(b'{"script":[', b'{"text":"a"},', b'{"text":"a"}]}', 2 << 20)),
    ]


@dataclass
class Attackers:
    """A crowd of clients of one server, with one key.

    Attributes:
        url: of the server.
        headers: with the key.
        until: when all end, by ``time.monotonic``.
        done: counts of finished attempts, by kind.
    """

    url: str
    headers: Mapping[str, str]
    until: float
    done: dict[str, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Run all kinds side by side, until the time is up."""
        kinds: list[tuple[Callable[[Iterator[int]], Awaitable[None]], int]] = [
            (self.post, 4),
            (self.not_read, 12),
            (self.half_send, 40),
            (self.fragment, 4),
            (self.leave, 4),
        ]
        crowds = []
        for kind, count in kinds:
            numbers = itertools.count()
            crowds += [self._again(kind, numbers) for _ in range(count)]
        await asyncio.gather(*crowds)

    async def _again(
        self, kind: Callable[[Iterator[int]], Awaitable[None]], numbers: Iterator[int]
    ) -> None:
        name = getattr(kind, "__name__", "")
        while (left := self.until - time.monotonic()) > 0:
            with contextlib.suppress(*_ERRORS):
                await asyncio.wait_for(kind(numbers), left)
            self.done[name] = self.done.get(name, 0) + 1
            await asyncio.sleep(_PAUSE)

    async def post(self, numbers: Iterator[int]) -> None:
        """Post one of the bodies."""
        every = bodies()
        path, body = every[next(numbers) % len(every)]
        json_headers = {**self.headers, "content-type": "application/json"}
        async with httpx.AsyncClient(timeout=60) as client:
            await client.post(self.url + path, content=body, headers=json_headers)

    async def not_read(self, numbers: Iterator[int]) -> None:
        """Ask for a long speech as base64 at 48 kHz over a WebSocket, and read nothing."""
        config = {"audio": "base64", "sample_rate": 48_000, "seed": next(numbers)}
        async with self._socket(max_queue=1) as socket:
            await socket.send(json.dumps({"type": "session.config", **config}))
            text = "We went home. " * (_LONG // 14)
            await socket.send(json.dumps({"type": "input.text", "text": text}))
            await socket.send(json.dumps({"type": "input.done"}))
            await socket.wait_closed()

    async def half_send(self, _: Iterator[int]) -> None:
        """Send a part of a request, byte by byte."""
        host, port = urlsplit(self.url).hostname, urlsplit(self.url).port
        reader, writer = await asyncio.open_connection(host, port)
        try:
            for byte in b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nX-Slow: aaaa":
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.5)
            await reader.read()
        finally:
            writer.close()

    async def fragment(self, _: Iterator[int]) -> None:
        """Send a text letter by letter behind one that waits."""
        async with self._socket() as socket:
            await socket.send(json.dumps({"type": "input.text", "text": "a" * 900}))
            for letter in itertools.islice(itertools.cycle("and then "), 4000):
                await socket.send(json.dumps({"type": "input.text", "text": letter}))

    async def leave(self, numbers: Iterator[int]) -> None:
        """Ask for a speech, and leave within a second."""
        body = {"input": "We walked along the river until it was dark. " * 8}
        async with (
            httpx.AsyncClient(timeout=60) as client,
            client.stream("POST", self.url + _SPEECH, json=body, headers=self.headers) as answer,
        ):
            until = time.monotonic() + random.Random(next(numbers)).random()
            async for _ in answer.aiter_raw():
                if time.monotonic() > until:
                    return

    def _socket(self, max_queue: int = 16) -> connect:
        url = self.url.replace("http", "ws", 1) + _LIVE
        return connect(url, additional_headers=self.headers, max_queue=max_queue, max_size=None)


def attack(url: str, headers: Mapping[str, str], seconds: float) -> dict[str, int]:
    """Attack a server for so many seconds; return the counts of attempts by kind."""
    attackers = Attackers(url, headers, time.monotonic() + seconds)
    asyncio.run(attackers.run())
    return attackers.done
