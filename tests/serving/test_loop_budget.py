"""Clients that send many small messages leave the event loop to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ChatTTS.serving.errors import ServingError
from ChatTTS.serving.live.context import Context
from ChatTTS.serving.live.run import QueuedUtterance, Run, SeedState
from ChatTTS.serving.live.send_queue import SocketClose
from ChatTTS.serving.live.session import SocketSession
from ChatTTS.serving.live.speech_queue import SpeechQueue
from ChatTTS.serving.observe import loop_budget
from ChatTTS.serving.observe.loop_budget import LoopBudget
from ChatTTS.serving.protocols.websocket.config import ContextConfig

from ..support.serving_tools import RunningServer, running_server

MESSAGES = 200


class Clock:
    now = 5.0

    def __call__(self) -> float:
        return self.now


def test_a_client_gets_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = Clock(), list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.now += seconds

    # Of this module alone: loops of servers in other threads sleep, too.
    monkeypatch.setattr(loop_budget, "asyncio", SimpleNamespace(sleep=sleep))

    async def spend(budget: LoopBudget) -> None:
        for taken in (0.01, 0.0, 0.02):
            with budget.spending():
                clock.now += taken
            await budget.pause()

    asyncio.run(spend(LoopBudget(clock)))
    assert pauses == pytest.approx([0.09, 0.0, 0.18])


class Flood(SocketSession):
    """A session whose client has sent all of its messages already."""

    handled = 0

    async def receive(self) -> str | None:
        return "{}" if self.handled < MESSAGES else None

    async def answer(self, fields: dict[str, Any]) -> SocketClose | None:
        self.handled += 1
        return None

    async def tell(self, error: ServingError, fields: dict[str, Any] | None) -> None:
        raise error


def test_other_tasks_have_their_turn_between_two_messages() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def read() -> None:
        limits = SimpleNamespace(limits=SimpleNamespace())
        session = Flood(cast(Any, None), cast(Any, SimpleNamespace(settings=limits)), "test")
        counting = asyncio.create_task(count())
        await session._read()
        counting.cancel()

    asyncio.run(read())
    assert turns >= MESSAGES - 1


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(warm=False) as server:
        yield server


def test_the_sockets_of_a_client_share_its_budget(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[LoopBudget] = []

    async def pause(self: LoopBudget) -> None:
        paused.append(self)

    monkeypatch.setattr(LoopBudget, "pause", pause)

    async def append(client: str) -> None:
        context = Context(server.service, ContextConfig(), speech_queue(server, client))
        await context.append("a")
        await context.cancel()

    for client in ("a", "a", "b"):
        server.run(append(client))
    assert paused[0] is paused[1] is not paused[2]


def speech_queue(server: RunningServer, client: str) -> SpeechQueue:
    none = cast(Any, None)
    return SpeechQueue(server.service, client, none, none, none, skips_silence=False)


def test_waiting_characters_are_counted(server: RunningServer) -> None:
    async def queued() -> list[int]:
        queue = speech_queue(server, "a")
        queue._task = asyncio.create_task(asyncio.sleep(60))  # nothing is spoken yet
        run, counts = Run(ContextConfig(), SeedState()), []
        for text in ("one", "three"):
            queue.put(QueuedUtterance(run, text))
            counts.append(queue.waiting_characters)
        await queue.cancel()
        return [*counts, queue.waiting_characters]

    assert server.run(queued()) == [3, 8, 0]
