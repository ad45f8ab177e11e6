"""Streams whose clients read slowly, or not at all."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from ChatTTS.serving.errors import DeadlineError
from ChatTTS.serving.http.layers import BodyMiddleware

SOUND = bytes(range(256)) * 1000  # the server sends these bytes in more than one part


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": SOUND, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def run(send: Send, patience: float) -> None:
    """Answer a request without a body, whose client stays connected."""
    requests: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not requests:
            await asyncio.Event().wait()
        return requests.pop()

    inlet = BodyMiddleware(
        stream, lambda path: 0, parts=lambda path: 0, seconds=60, patience=patience
    )
    await inlet({"type": "http", "path": "/", "headers": []}, receive, send)


def test_a_client_that_takes_nothing_is_cut_off() -> None:
    async def send(message: Message) -> None:
        if message.get("more_body"):
            await asyncio.Event().wait()

    with pytest.raises(DeadlineError, match="read nothing"):
        asyncio.run(run(send, patience=0.02))


def test_each_part_has_its_own_time_limit() -> None:
    taken: list[bytes] = []

    async def send(message: Message) -> None:
        taken.append(message.get("body", b""))

    asyncio.run(run(send, patience=60))
    assert b"".join(taken) == SOUND
    assert max(map(len, taken)) <= 1 << 16
