"""Streams whose clients read slowly, or not at all."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ChatTTS.serving.errors import DeadlineError
from ChatTTS.serving.http.middleware import BodyMiddleware

SOUND = bytes(range(256)) * 1000  # the server sends these bytes in more than one part


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": SOUND, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def run(send: Send, patience: float, app: ASGIApp = stream) -> None:
    """Answer a request without a body, whose client stays connected."""
    requests: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not requests:
            await asyncio.Event().wait()
        return requests.pop()

    inlet = BodyMiddleware(app, lambda path: 0, parts=lambda path: 0, seconds=60, patience=patience)
    await inlet({"type": "http", "path": "/", "headers": []}, receive, send)


def test_a_client_that_takes_nothing_is_cut_off() -> None:
    async def send(message: Message) -> None:
        if message.get("more_body"):
            await asyncio.Event().wait()

    with pytest.raises(DeadlineError, match="read nothing"):
        asyncio.run(run(send, patience=0.02))


def test_so_is_one_that_takes_nothing_of_what_is_told_then() -> None:
    refusals: list[DeadlineError] = []

    async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(2):
            with pytest.raises(DeadlineError) as refusal:
                await stream(scope, receive, send)
            refusals.append(refusal.value)

    async def send(message: Message) -> None:
        if message.get("more_body"):
            await asyncio.Event().wait()

    asyncio.run(asyncio.wait_for(run(send, patience=0.02, app=stubborn), 60))
    assert len(refusals) == 2


def test_the_time_between_two_parts_does_not_count() -> None:
    taken: list[bytes] = []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await stream(scope, receive, send)
        await asyncio.sleep(0.1)
        await stream(scope, receive, send)

    async def send(message: Message) -> None:
        taken.append(message.get("body", b""))

    asyncio.run(run(send, patience=0.03, app=slow))
    assert b"".join(taken) == 2 * SOUND


def test_each_part_has_its_own_time_limit() -> None:
    taken: list[bytes] = []

    async def send(message: Message) -> None:
        taken.append(message.get("body", b""))

    asyncio.run(run(send, patience=60))
    assert b"".join(taken) == SOUND
    assert max(map(len, taken)) <= 1 << 16
