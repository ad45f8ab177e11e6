"""Idle and half-sent connections shut no client out, and do not fill the log."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from ChatTTS.core import Chat
from ChatTTS.serving.http.connections import Connection, Connections
from ChatTTS.serving.http.listener import (
    accept_connections,
    bind,
    connection_limits,
    raised_file_limit,
)
from ChatTTS.serving.settings import Limits, Settings

from ..support.server_tools import WholeServer, whole_server
from ..support.serving_tools import PATIENCE, eventually, loaded_chat, with_limits
from ..support.tls_tools import make_certificate
from ..support.websocket_tools import Speaker, speaker

STRANGER = "192.0.2.7"
HALF = b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le"
NO_BODY = (
    b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)


# ------------------------------------------------------------------ which connections stay open


class Clock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Books:
    """A ``Connections`` with small limits, a clock that tests advance, and socket pairs."""

    def __init__(self, most: int = 3, per_address: int = 99, **settings: Any) -> None:
        limits = Limits(connections=most, connections_per_address=per_address)
        self.clock = Clock()
        self.closed: list[str] = []
        self.all = Connections(
            Settings(limits=limits, **settings), closed=self.closed.append, clock=self.clock
        )
        self._pairs: list[tuple[socket.socket, socket.socket]] = []

    def admit(self, host: str = STRANGER) -> Connection | None:
        pair = socket.socketpair()
        self._pairs.append(pair)
        return self.all.admit(pair[0], host)

    def admitted(self, host: str = STRANGER) -> Connection:
        connection = self.admit(host)
        assert connection is not None
        return connection

    def is_cut(self, number: int) -> bool:
        """Return whether the client of a connection, numbered by arrival, sees its end."""
        client = self._pairs[number][1]
        client.setblocking(False)
        try:
            return client.recv(1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        for pair in self._pairs:
            for end in pair:
                end.close()


@contextlib.contextmanager
def books(**settings: Any) -> Iterator[Books]:
    made = Books(**settings)
    try:
        yield made
    finally:
        made.close()


def test_the_connection_that_is_idle_longest_makes_room() -> None:
    with books() as b, b.admitted().request() as is_whole:
        is_whole()
        b.clock.now += 1
        for _ in range(2):
            b.admitted()
            b.clock.now += 1
        b.admitted()
        assert [b.is_cut(number) for number in range(4)] == [False, True, False, False]
        assert (len(b.all), b.closed) == (3, ["full"])


def test_the_end_of_the_server_cuts_all_but_first_those_without_a_request() -> None:
    with books() as b, b.admitted().request() as is_whole:
        is_whole()
        b.admitted()
        b.all.abort_idle()
        assert [b.is_cut(number) for number in range(2)] == [False, True]
        b.all.abort_all()
        assert b.is_cut(0)


def test_where_all_are_busy_or_young_the_newcomer_is_refused() -> None:
    with books(most=2) as b, b.admitted().request() as is_whole:
        is_whole()
        b.admitted()
        assert b.admit() is None
        assert (len(b.all), b.closed) == (2, ["full"])


def test_a_request_whose_body_is_missing_makes_room_as_well() -> None:
    with books(most=1) as b, b.admitted().request():
        b.clock.now += 1
        b.admitted()
        assert b.is_cut(0)


def test_one_address_may_not_have_all() -> None:
    with books(per_address=2) as b:
        b.admitted("198.51.100.1")
        for _ in range(2):
            b.admitted()
        assert b.admit() is None
        assert b.closed == ["address"]
        b.clock.now += 1
        b.admitted()  # replaces an idle connection of its own address, not of another one
        assert [b.is_cut(number) for number in range(3)] == [False, True, False]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.1.2.3", "192.0.2.9"])
def test_this_machine_and_proxies_may_have_all(host: str) -> None:
    with books(per_address=1, trusted_proxies=("192.0.2.9", "10.0.0.0/8", "no address")) as b:
        for _ in range(3):
            b.admitted(host)
        assert b.closed == []


def test_a_connection_that_ends_leaves_its_place() -> None:
    with books(most=1, per_address=1) as b:
        for _ in range(3):
            b.all.remove(b.admitted())
        assert (len(b.all), b.closed) == (0, [])


def test_only_connections_that_owe_a_request_run_out_of_time() -> None:
    limits = Limits()
    with books() as b:
        b.admitted()
        reading = b.admitted()
        busy = b.admitted()
        with busy.request() as is_whole, reading.request():
            is_whole()
            b.clock.now += limits.head_seconds
            b.all.abort_overdue()
            assert [b.is_cut(number) for number in range(3)] == [True, False, False]
            b.clock.now += limits.body_seconds
            b.all.abort_overdue()
            assert [b.is_cut(number) for number in range(3)] == [True, True, False]
        b.clock.now += limits.head_seconds
        b.all.abort_overdue()
        assert b.is_cut(2)
        assert b.closed == ["slow"] * 3


class Unread:
    """A transport whose client has not read ``left`` bytes yet."""

    def __init__(self, left: int) -> None:
        self.left, self.is_aborted = left, False

    def get_write_buffer_size(self) -> int:
        return self.left

    def abort(self) -> None:
        self.is_aborted = True


def test_a_client_that_reads_slowly_may_go_on() -> None:
    limits = Limits()
    with books() as b:
        connection = b.admitted()
        connection.transport = transport = Unread(1000)  # type: ignore[assignment]
        for _ in range(5):
            b.clock.now += limits.stalled_seconds - 1
            transport.left -= 1
            b.all.abort_overdue()
            assert not transport.is_aborted
        b.clock.now += limits.stalled_seconds
        b.all.abort_overdue()
        assert transport.is_aborted


def test_many_closed_connections_are_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with books(most=1) as b:
        b.admitted()
        for _ in range(500):
            assert b.admit() is None
        assert len(caplog.records) == 1
        b.clock.now += 100
    assert "1 connections are open" in caplog.records[0].getMessage()


# ------------------------------------------------------------------ no free file descriptor


def test_without_free_file_descriptors_room_is_made_and_the_log_stays_short(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The idle connection is closed; without one, the new connection is dropped at once."""
    settings = Settings()
    refusals = 20

    async def run() -> None:
        loop = asyncio.get_running_loop()
        real, left = loop.sock_accept, refusals

        async def accept(sock: socket.socket) -> Any:
            nonlocal left
            if left and len(connections):
                left -= 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return await real(sock)

        monkeypatch.setattr(loop, "sock_accept", accept)
        connections = Connections(settings)
        bound = bind("127.0.0.1", 0)
        address = bound.getsockname()
        async with accept_connections(bound, connections, lambda _: asyncio.Protocol(), None):
            clients = []
            for number in range(2):
                clients.append(await asyncio.open_connection(*address))
                if not number:
                    while not len(connections):
                        await asyncio.sleep(0)
            ended = [asyncio.ensure_future(reader.read()) for reader, _ in clients]
            await asyncio.wait(ended, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            assert any(task.done() for task in ended)
            for task in ended:
                task.cancel()
            for _, writer in clients:
                writer.close()
        await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    lines = [r.getMessage() for r in caplog.records if "can be accepted" in r.getMessage()]
    assert len(lines) == 1
    assert os.strerror(errno.EMFILE) in lines[0]


def test_the_limit_is_what_the_process_may_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    resource = pytest.importorskip("resource")
    settings = Settings()
    most = settings.limits.connections
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    assert connection_limits(settings) == (most, most)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert connection_limits(settings) == (most, most)
    assert not caplog.records
    monkeypatch.setattr(resource, "getrlimit", lambda _: (512, 512))
    http, rpc = connection_limits(settings)
    assert 0 < rpc < http
    assert http + rpc < 512
    assert connection_limits(replace(settings, grpc_port=None))[0] == http + rpc
    assert "LimitNOFILE" in caplog.records[0].getMessage()


def test_the_process_may_open_more_files_meanwhile() -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = min(before[0], 300)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lower, before[1]))
    try:
        with raised_file_limit():
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= lower
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (lower, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# ------------------------------------------------------------------ the whole server


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    limits = with_limits(connections=20, head_seconds=0.5, body_seconds=0.5, idle_seconds=1.0)
    with whole_server(**limits) as running:
        yield running


@contextlib.contextmanager
def clients(address: str, count: int, words: bytes = b"") -> Iterator[list[socket.socket]]:
    """Yield connections that have sent this data."""
    host, _, port = address.partition(":")
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            made.append(stack.enter_context(socket.create_connection((host, int(port)), PATIENCE)))
            with contextlib.suppress(ConnectionError):  # the connection was refused
                made[-1].sendall(words)
        yield made


def said(client: socket.socket) -> bytes:
    """Return all data that a client receives until its connection ends."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := client.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def closed(server: WholeServer, reason: str) -> float:
    registry = server.service.metrics.registry
    return registry.get_sample_value("chattts_connections_closed_total", {"reason": reason}) or 0


@pytest.mark.slow
@pytest.mark.parametrize("words", [b"", HALF, NO_BODY])
def test_a_crowd_that_owes_its_requests_shuts_no_client_out(
    server: WholeServer, words: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with clients(server.address, 60, words) as crowd:
        # For a moment, the present connections may not have been idle long enough to be closed.
        assert eventually(lambda: is_healthy(server))
        for client in crowd:
            answer = said(client)
            assert answer == b"" or b"request_timeout" in answer
    assert eventually(lambda: open_now(server) == 0)
    assert len(caplog.records) < 70  # a late body is logged in a line of its own


def is_healthy(server: WholeServer) -> bool:
    try:
        return httpx.get(f"{server.url}/health", timeout=PATIENCE).status_code == 200
    except httpx.TransportError:
        return False


def open_now(server: WholeServer) -> float:
    value = server.service.metrics.registry.get_sample_value("chattts_connections")
    assert value is not None
    return value


@pytest.mark.slow
def test_a_body_that_does_not_come_is_answered(server: WholeServer) -> None:
    with clients(server.address, 1, NO_BODY) as (client,):
        head, _, body = said(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request_timeout"' in body


@pytest.mark.slow
def test_half_of_a_second_request_is_cut(server: WholeServer) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    def is_answered_once() -> bool:
        with clients(server.address, 1, request + request[:10]) as (client,):
            return said(client).startswith(b"HTTP/1.1 200 ")  # and then its connection ends

    before = closed(server, "slow")
    assert eventually(is_answered_once)
    assert eventually(lambda: closed(server, "slow") > before)


@pytest.mark.slow
def test_a_websocket_is_no_idle_connection(server: WholeServer) -> None:
    with speaker(server) as client:
        # The limit of an idle WebSocket is longer than that of a request's head.
        assert client.until_closed() == 4408


@pytest.mark.slow
def test_sockets_of_one_address_are_counted_behind_a_proxy() -> None:
    limits = with_limits(connections_per_address=1)
    with whole_server(trusted_proxies=("127.0.0.1",), **limits) as server:

        def one(host: str) -> contextlib.AbstractContextManager[Speaker]:
            return speaker(server, additional_headers={"X-Forwarded-For": host})

        with one(STRANGER) as first:
            with one(STRANGER) as second:
                assert second.until_closed() == 1013
            with one("198.51.100.1") as other:
                other.say("input.flush")
                assert other.until("audio.done")
            first.say("input.flush")
            assert first.until("audio.done")


@pytest.mark.slow
def test_grpc_ends_connections_that_say_nothing(server: WholeServer) -> None:
    with clients(server.grpc_address, 40) as crowd:
        for client in crowd:
            said(client)  # returns at the end of the connection
    with server.riva_client() as voice:
        assert voice.synthesize("We went home.").audio


@pytest.mark.slow
def test_grpc_takes_no_more_than_its_limit() -> None:
    with whole_server(**with_limits(connections=2, head_seconds=PATIENCE)) as server:
        with clients(server.grpc_address, 5) as crowd:
            ended = [client for client in crowd if is_ended(client)]
            assert len(ended) >= 3
        with grpc.insecure_channel(server.grpc_address) as channel:
            grpc.channel_ready_future(channel).result(PATIENCE)


def is_ended(client: socket.socket) -> bool:
    """Return whether a connection is refused; an accepted one gets gRPC's greeting first."""
    try:
        return client.recv(1 << 10) == b""
    except ConnectionError:
        return True


@pytest.fixture
def chat() -> Iterator[Chat]:
    chat = loaded_chat()
    yield chat
    chat.unload()


def test_a_client_that_does_not_end_the_handshake_of_tls_is_cut(chat: Chat, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    files: dict[str, Any] = {"tls_certificate": certificate, "tls_key": key}
    trusted = ssl.create_default_context(cafile=certificate)
    with whole_server(chat, **files, **with_limits(connections=5, head_seconds=0.5)) as server:
        with clients(server.address, 20, b"\x16\x03\x01") as crowd:
            for client in crowd:
                said(client)
        answer = httpx.get(f"{server.url}/health", verify=trusted, timeout=PATIENCE)
        assert answer.status_code == 200
        assert eventually(lambda: open_now(server) == 0)


def test_a_short_message_does_not_wait_for_the_one_before() -> None:
    """Nagle's algorithm holds a second short packet back until the client has told of the first."""
    made: asyncio.Queue[int] = asyncio.Queue()

    class Noting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            sock = transport.get_extra_info("socket")
            made.put_nowait(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def connected() -> int:
        bound = bind("127.0.0.1", 0)
        registry = Connections(Settings())
        with contextlib.closing(bound):
            async with accept_connections(bound, registry, lambda _: Noting(), None):
                with socket.create_connection(bound.getsockname()):
                    return await asyncio.wait_for(made.get(), PATIENCE)

    assert asyncio.run(connected()) != 0
