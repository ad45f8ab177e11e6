"""Bytes of clients are parsed in pieces, by turns, whatever they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ChatTTS.serving.http.connections import Connections
from ChatTTS.serving.http.listener import bind
from ChatTTS.serving.http.paced_reading import _PIECE, PacedConnection, ReadingTurns
from ChatTTS.serving.http.uvicorn_server import serve_http
from ChatTTS.serving.settings import Settings

LONG = bytes(i * 7 % 251 for i in range(10 * _PIECE + 5))


class Clock:
    """A clock that stands still while nothing is parsed."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Transport(asyncio.Transport):
    """A transport that notes whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.is_closed = True, False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_closed = True


class Parser(asyncio.Protocol):
    """A parser that takes a second for a piece, and notes the pieces.

    Args:
        clock: goes on by that second.
        heard: notes its name and the length of each piece, in the order of all parsers.
    """

    def __init__(self, clock: Clock, heard: list[tuple[str, int]], name: str = "a") -> None:
        self.clock, self.heard, self.name = clock, heard, name
        self.transport = cast(asyncio.Transport, None)
        self.data, self.has_ended = b"", False
        self.on_piece: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert not self.has_ended
        self.clock.now += 1
        self.data += data
        self.heard.append((self.name, len(data)))
        self.on_piece()

    def eof_received(self) -> None:
        self.has_ended = True


class Paced:
    """Parsers on paced connections, in a running loop."""

    def __init__(self) -> None:
        self.clock, self.heard = Clock(), list[tuple[str, int]]()
        self.turns = ReadingTurns(self.clock)

    def connect(self, name: str = "a") -> tuple[PacedConnection, Parser, Transport]:
        parser, transport = Parser(self.clock, self.heard, name), Transport()
        connection = PacedConnection(parser, self.turns)
        connection.connection_made(transport)
        return connection, parser, transport


def run(test: Callable[[Paced], Awaitable[None]]) -> None:
    async def tested() -> None:
        await test(Paced())

    asyncio.run(tested())


async def until(is_so: Callable[[], bool]) -> int:
    """Return the number of the loop's turns until something is so."""
    for turn in range(1000):
        if is_so():
            return turn
        await asyncio.sleep(0)
    raise AssertionError("it was never so")


def test_a_turn_of_the_loop_parses_a_piece() -> None:
    async def test(paced: Paced) -> None:
        connection, parser, _ = paced.connect()
        connection.data_received(LONG)
        assert parser.data == b""
        turns = await until(lambda: parser.data == LONG)
        assert [length for _, length in paced.heard] == [_PIECE] * 10 + [5]
        assert turns >= 10

    run(test)


def test_a_busy_loop_reads_more_in_a_turn() -> None:
    async def test(paced: Paced) -> None:
        for name in "abcdefgh":
            paced.connect(name)[0].data_received(b"GET")
        paced.clock.now += 16  # of other work, in which a parser would take 1 for each piece
        await asyncio.sleep(0)
        assert len(paced.heard) == 4

    run(test)


def test_many_connections_have_one_turn_together() -> None:
    async def test(paced: Paced) -> None:
        for name in "abcdefgh":
            paced.connect(name)[0].data_received(LONG)
        assert await until(lambda: len(paced.heard) == 8 * 11) >= 8 * 10

    run(test)


def test_quick_pieces_share_a_turn() -> None:
    async def test(paced: Paced) -> None:
        connection, parser, _ = paced.connect()
        parser.clock = Clock()  # that of the turns stands still
        connection.data_received(LONG)
        assert await until(lambda: parser.data == LONG) <= 2

    run(test)


def test_a_new_connection_goes_before_those_that_took_long() -> None:
    async def test(paced: Paced) -> None:
        for name in "abc":
            paced.connect(name)[0].data_received(LONG * 9)
        await until(lambda: len(paced.heard) == 30)
        connection, parser, _ = paced.connect("new")
        connection.data_received(b"short")
        await until(lambda: parser.data == b"short")
        assert len(paced.heard) <= 30 + 4

    run(test)


def test_silence_saves_up_no_turns() -> None:
    async def test(paced: Paced) -> None:
        silent, parser, _ = paced.connect("silent")
        paced.connect("a")[0].data_received(LONG)
        await until(lambda: len(paced.heard) == 11)
        paced.connect("b")[0].data_received(LONG)
        silent.data_received(LONG)
        await until(lambda: len(parser.data) == len(LONG))
        assert sum(name == "b" for name, _ in paced.heard) >= 9

    run(test)


def test_no_more_is_read_than_is_parsed() -> None:
    async def test(paced: Paced) -> None:
        connection, parser, transport = paced.connect()
        connection.data_received(b"short")
        assert transport.reads
        connection.data_received(LONG)
        assert not transport.reads
        await until(lambda: parser.data == b"short" + LONG)
        await asyncio.sleep(0)
        assert transport.reads

    run(test)


def test_a_protocol_that_pauses_gets_nothing() -> None:
    async def test(paced: Paced) -> None:
        connection, parser, transport = paced.connect()
        parser.on_piece = lambda: parser.transport.pause_reading()
        connection.data_received(LONG)
        for pieces in (1, 2, 3):
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(paced.heard) == pieces
            assert not transport.reads
            parser.transport.resume_reading()

    run(test)


def test_another_protocol_gets_the_rest() -> None:
    """So HTTP becomes a WebSocket."""

    async def test(paced: Paced) -> None:
        connection, parser, _ = paced.connect()
        other = Parser(paced.clock, paced.heard, "other")
        parser.on_piece = lambda: parser.transport.set_protocol(other)
        connection.data_received(LONG)
        await until(lambda: parser.data + other.data == LONG)
        assert len(parser.data) == _PIECE
        assert parser.transport.get_protocol() is other

    run(test)


def test_the_end_comes_after_the_last_bytes() -> None:
    async def test(paced: Paced) -> None:
        connection, parser, _ = paced.connect()
        connection.data_received(b"last")
        connection.eof_received()
        assert (parser.data, parser.has_ended) == (b"last", True)

    run(test)


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_connection_that_is_gone_is_not_parsed(is_lost: bool) -> None:
    async def test(paced: Paced) -> None:
        connection, parser, transport = paced.connect()
        connection.data_received(LONG)
        if is_lost:
            connection.connection_lost(None)
        transport.is_closed = not is_lost
        for _ in range(20):
            await asyncio.sleep(0)
        assert parser.data == b""

    run(test)


def test_a_parser_that_fails_ends_its_connection_alone() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def test(paced: Paced) -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        connection, parser, transport = paced.connect()
        parser.on_piece = fail
        connection.data_received(LONG)
        other, good, _ = paced.connect("b")
        other.data_received(LONG)
        await until(lambda: good.data == LONG)
        assert transport.is_closed
        assert [type(each["exception"]) for each in told] == [ZeroDivisionError]

    run(test)


def test_the_server_parses_what_it_reads_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body in chunks of a byte, as a client may send it."""
    pieces, body = list[int](), b"1\r\na\r\n" * 20_000 + b"0\r\n\r\n"
    data_received = H11Protocol.data_received

    def noted(self: H11Protocol, data: bytes) -> None:
        pieces.append(len(data))
        data_received(self, data)

    monkeypatch.setattr(H11Protocol, "data_received", noted)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        answer = str(size).encode()
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def served() -> bytes:
        settings = Settings(port=0)
        bound = bind("127.0.0.1", 0)
        port = bound.getsockname()[1]
        async with serve_http(app, settings, bound, Connections(settings)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked"
            writer.write(head + b"\r\n\r\n" + body)
            answer = await reader.read()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return answer

    assert asyncio.run(served()).endswith(b"20000")
    assert max(pieces) <= _PIECE
    assert sum(pieces) > len(body)
