"""Failures: when the engine breaks, every client is told; clients that leave hold nothing."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
import pytest
import riva.client.proto.riva_tts_pb2 as tts
from grpc_health.v1 import health_pb2, health_pb2_grpc
from websockets.exceptions import ConnectionClosed

from ChatTTS.serving.observe.metrics import RequestRecord

from ..support.server_tools import WholeServer, reset, whole_server
from ..support.serving_tools import PATIENCE, eventually, with_limits
from ..support.websocket_tools import Speaker, speaker

LONG = "The lighthouse had been dark for eleven years. Then somebody lit the lamp again. " * 40
# Seconds. A request is refused if its expected turn lies beyond its deadline. A busy machine may
# expect very long waits for a long text, so this deadline is far beyond any real wait.
LATE = 10**6
SECRET = "the secret of a worker"
# Threads of bounded pools, which stay.
POOLS = ("serving_", "parsing_", "reading_", "asyncio_", "ThreadPoolExecutor")


def request(**fields: Any) -> dict[str, Any]:
    return {"input": LONG, "response_format": "pcm", **fields}


# ------------------------------------------------------------------ the engine breaks


@dataclass(frozen=True)
class Told:
    """How a request ended for its client.

    Attributes:
        code: the error's code; ``broken off`` for an answer that began and was left unfinished.
        words: the error's message.
    """

    code: str
    words: str = ""


def of_json(error: dict[str, Any]) -> Told:
    return Told(error["code"], error["message"])


def by_rest(server: WholeServer, **fields: Any) -> Told:
    address = f"{server.url}/v1/audio/speech"
    try:
        answer = httpx.post(address, json=request(**fields), timeout=PATIENCE)
    except httpx.RemoteProtocolError:
        return Told("broken off")
    if answer.status_code == 200:
        lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
        return of_json(json.loads(lines[-1][len("data: ") :])["error"])
    assert answer.status_code == 503
    return of_json(answer.json()["error"])


def by_rest_whole(server: WholeServer) -> Told:
    return by_rest(server, stream=False)


def by_events(server: WholeServer) -> Told:
    return by_rest(server, stream_format="sse")


def by_batch(server: WholeServer) -> Told:
    body = {"items": [request()], "response_format": "pcm"}
    answer = httpx.post(f"{server.url}/v1/audio/speech/batch", json=body, timeout=PATIENCE)
    assert answer.status_code == 200
    return of_json(answer.json()["data"][0]["error"])


def by_socket(server: WholeServer) -> Told:
    with speaker(server) as client:
        client.say("input.text", text=LONG[:5000])
        told = of_json(client.until("error")["error"])
        client.say("input.done")
        assert client.until("session.done")
        return told


def of_grpc(error: grpc.RpcError) -> Told:
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    return Told("engine_unavailable", error.details())


def by_riva(server: WholeServer) -> Told:
    with server.riva_client() as client, pytest.raises(grpc.RpcError) as caught:
        client.stub.Synthesize(tts.SynthesizeSpeechRequest(text=LONG), LATE)
    return of_grpc(caught.value)


def by_riva_online(server: WholeServer) -> Told:
    asked = iter([tts.SynthesizeSpeechRequest(text=LONG)])
    with server.riva_client() as client, pytest.raises(grpc.RpcError) as caught:
        list(client.stub.SynthesizeOnline(asked, LATE))
    return of_grpc(caught.value)


CLIENTS = (
    by_rest,
    by_riva,
    by_events,
    by_socket,
    by_rest_whole,
    by_riva_online,
    by_batch,
    by_socket,
    by_rest,
)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0, 4])
def test_every_client_is_told_when_the_engine_breaks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, shift: int
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(SECRET)

    order = CLIENTS[shift:] + CLIENTS[:shift]
    with (
        whole_server(**with_limits(running=4, wait_seconds=LATE)) as server,
        ThreadPoolExecutor(len(order)) as pool,
    ):
        admission = server.service.admission
        answers = []
        for number, client in enumerate(order, 1):
            answers.append(pool.submit(client, server))
            # A WebSocket may have more than one request.
            assert eventually(lambda n=number: admission.running + admission.waiting >= n)  # type: ignore[misc]
        counts = (admission.running, admission.waiting)
        executor = server.chat.gpt.engine.engine.engine.executor  # type: ignore[attr-defined]
        monkeypatch.setattr(executor, "execute_model", broken)
        told = [answer.result(PATIENCE) for answer in answers]
        assert counts[0] == 4
        assert counts[1] >= 4

        assert {t.code for t in told} <= {"engine_unavailable", "broken off"}
        # Only an answer of plain bytes that has begun may end without an error message.
        silent = [c for c, t in zip(order, told, strict=True) if t.code == "broken off"]
        assert set(silent) <= {by_rest}
        assert not any(SECRET in t.words for t in told)
        assert any(SECRET in record.getMessage() for record in caplog.records)
        assert server.becomes_idle()

        # No request waits any more.
        ready = httpx.get(f"{server.url}/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "failed")
        assert httpx.get(f"{server.url}/health").status_code == 200
        for client in dict.fromkeys(order):
            assert client(server).code == "engine_unavailable"
        refined = httpx.post(f"{server.url}/refine", json={"input": "Hello."}, timeout=PATIENCE)
        assert refined.status_code == 503
        with server.channel() as channel:
            health = health_pb2_grpc.HealthStub(channel)
            status = health.Check(health_pb2.HealthCheckRequest(), PATIENCE).status
        assert status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert server.becomes_idle()


# ------------------------------------------------------------------ clients that leave


@dataclass(frozen=True)
class Footprint:
    """The resources of a server.

    Attributes:
        tasks, threads: numbers of asyncio tasks and of threads, by name.
        files: number of open file descriptors, sockets included.
    """

    tasks: Counter[str]
    threads: Counter[str]
    files: int

    @classmethod
    def of(cls, server: WholeServer) -> Footprint:
        names = server.call(lambda: [task.get_coro().__qualname__ for task in asyncio.all_tasks()])  # type: ignore[union-attr]
        threads = [t.name for t in threading.enumerate() if not t.name.startswith(POOLS)]
        files = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
        return cls(Counter(names), Counter(threads), files)

    def grown(self, before: Footprint) -> str:
        """Return the resources that were added since; empty if there are none."""
        more = [*(self.tasks - before.tasks), *(self.threads - before.threads)]
        if self.files > before.files:
            more.append(f"{self.files - before.files} files")
        return ", ".join(more)


class Leaver:
    """A client that disconnects at a random moment and in a random way.

    Attributes:
        has_heard: whether the client received any data before it left.
    """

    def __init__(self, server: WholeServer, seed: int) -> None:
        self.has_heard = False
        self._server = server
        self._draw = random.Random(seed)
        ways = (self._rest, self._half_a_request, self._socket, self._riva, self._riva_online)
        self._way: Callable[[], None] = ways[seed % len(ways)]

    def __call__(self) -> None:
        self._way()

    def _pause(self) -> None:
        threading.Event().wait(self._draw.random() * 0.3)

    def _connection(self) -> socket.socket:
        host, _, port = self._server.address.partition(":")
        return socket.create_connection((host, int(port)), PATIENCE)

    def _head(self, length: int) -> bytes:
        return (
            "POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def _leave(self, connection: socket.socket) -> None:
        if self._draw.random() < 0.5:
            reset(connection)
        connection.close()

    def _rest(self) -> None:
        fields: dict[str, Any] = self._draw.choice(
            [{}, {"stream": False}, {"stream_format": "sse"}, {"response_format": "mp3"}]
        )
        body = json.dumps(request(**fields)).encode()
        connection = self._connection()
        connection.sendall(self._head(len(body)) + body)
        for _ in range(self._draw.randrange(3) if fields != {"stream": False} else 0):
            self.has_heard |= connection.recv(1 << 16) != b""
        self._pause()
        self._leave(connection)

    def _half_a_request(self) -> None:
        body = json.dumps(request()).encode()
        whole = self._head(len(body)) + body
        connection = self._connection()
        connection.sendall(whole[: self._draw.randrange(len(whole))])
        self._pause()
        self._leave(connection)

    def _socket(self) -> None:
        with speaker(self._server) as client:
            try:
                self._talk(client)
            except ConnectionClosed:  # the server may close it first
                return
            if self._draw.random() < 0.7:
                client.connection.socket.shutdown(socket.SHUT_RDWR)

    def _talk(self, client: Speaker) -> None:
        for context in ("a", "b")[: self._draw.randrange(1, 3)]:
            client.say("input.text", context, text=LONG[: self._draw.randrange(200, 2000)])
        for _ in range(self._draw.randrange(4)):
            client.hear()
            self.has_heard = True
        if self._draw.random() < 0.3:
            client.say("input.cancel", "a")
        self._pause()

    def _riva(self) -> None:
        with self._server.riva_client() as client:
            call = client.stub.Synthesize.future(tts.SynthesizeSpeechRequest(text=LONG))
            self._pause()
            call.cancel()

    def _riva_online(self) -> None:
        asked = iter([tts.SynthesizeSpeechRequest(text=LONG)])
        with self._server.riva_client() as client:
            answers = client.stub.SynthesizeOnline(asked)
            for _ in range(self._draw.randrange(3)):
                next(answers)
                self.has_heard = True
            self._pause()
            if self._draw.random() < 0.5:
                answers.cancel()


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    limits = with_limits(running=4, waiting=200, waiting_per_client=200, wait_seconds=LATE)
    with whole_server(brief=False, **limits) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_a_client_that_leaves_at_any_moment_leaves_nothing_behind(
    server: WholeServer, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    spoken: list[RequestRecord] = []
    for seed in range(5):  # so that resources that are allocated once exist
        Leaver(server, seed)()
    assert server.becomes_idle()
    before, others = Footprint.of(server), set(threading.enumerate())
    monkeypatch.setattr(server.service.metrics, "count_request", spoken.append)
    with ThreadPoolExecutor(8, thread_name_prefix="leavers") as pool:
        leavers = [Leaver(server, seed) for seed in range(count)]
        for left in [pool.submit(leaver) for leaver in leavers]:
            left.result(PATIENCE)
    assert server.becomes_idle(), server.busy()
    assert eventually(lambda: not Footprint.of(server).grown(before)), Footprint.of(server).grown(
        before
    )
    # Clients that received audio had a running request, which was not spoken to its end.
    heard = sum(leaver.has_heard for leaver in leavers)
    assert heard > 0
    assert sum(record.finish != "stop" for record in spoken) >= heard
    # Pools of other modules' servers may still be ending.
    pooled = [t for t in {*threading.enumerate()} - others if t.name.startswith(POOLS)]
    assert len(pooled) <= 2 * 16 + 8
    answer = httpx.post(
        f"{server.url}/v1/audio/speech", json=request(input="We went home."), timeout=PATIENCE
    )
    assert answer.status_code == 200
    assert answer.content
