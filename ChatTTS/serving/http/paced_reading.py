"""Connections whose bytes are parsed in small pieces, by turns.

asyncio reads 256 KiB at a time. In messages of six bytes each, or in chunks of one byte, their
parsers need 0.2 s for that, and 64 connections may send it in one turn of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, cast

_PIECE = 4096  # bytes; their parsers need 3 ms at most
_TURN_SECONDS = 0.002
# Of the time that the loop takes for its other work between two turns, where that is more: else
# a busy server would read a request or two while it sends to hundreds of clients.
_TURN_SHARE = 0.25


class ReadingTurns:
    """Gives connections their turns to parse what they have read. Belongs to one asyncio loop.

    The turns are fair in time: the connection goes first whose bytes took the least. One that was
    silent cannot save up turns.

    Args:
        clock: returns seconds; by default those of the processor in this thread. What other threads
            take of Python's lock meanwhile is no connection's fault, and would leave a busy server
            one request for each turn of its loop.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._now = 0.0  # the time that was given to the connection whose turn was last
        self._ended = clock()
        self._arrivals = 0
        self._is_due = False
        self._waiting: list[tuple[float, int, PacedConnection]] = []

    def enter(self, connection: PacedConnection) -> None:
        """Have ``connection`` parse a piece when its turn comes."""
        connection.taken = max(connection.taken, self._now)
        self._arrivals += 1
        heappush(self._waiting, (connection.taken, self._arrivals, connection))
        self._come_back()

    def _come_back(self) -> None:
        """Give the next turns once the loop has done its other work."""
        if self._waiting and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        """Give turns, until the loop must go on to its other work."""
        self._is_due = False
        begun = now = self._clock()
        most = max(_TURN_SECONDS, _TURN_SHARE * (begun - self._ended))
        while self._waiting and now - begun < most:
            self._now, _, connection = heappop(self._waiting)
            try:
                connection.parse()
            finally:
                before, now = now, self._clock()
                connection.taken += now - before
                connection.go_on()
                self._come_back()
        self._ended = now


class PacedConnection(asyncio.Protocol):
    """Gives a protocol what a connection reads, in pieces.

    Args:
        protocol: parses; it may put another one in its place by ``transport.set_protocol``.
        turns: of all connections.

    Attributes:
        taken: seconds, by ``turns``.
    """

    def __init__(self, protocol: asyncio.Protocol, turns: ReadingTurns) -> None:
        self.protocol: asyncio.BaseProtocol = protocol
        self.taken = 0.0
        self._turns = turns
        self._unread = bytearray()
        self._transport: asyncio.Transport | None = None
        self._is_waiting = self._is_held = False

    # -- called by asyncio -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop is no subclass
        self.protocol.connection_made(_PacedTransport(self, self._transport))

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self.go_on()

    def eof_received(self) -> bool | None:
        self.parse()
        return cast(asyncio.Protocol, self.protocol).eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unread.clear()
        self.protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self.protocol.resume_writing()

    # -- called by the turns and by the protocol ---------------------------------------------

    def parse(self) -> None:
        """Give the protocol the next piece, unless it wants none now."""
        self._is_waiting = False
        if self._is_held or not self._unread or self._is_closing:
            return
        piece = bytes(self._unread[:_PIECE])
        del self._unread[:_PIECE]
        try:
            cast(asyncio.Protocol, self.protocol).data_received(piece)
        except Exception:
            cast(asyncio.Transport, self._transport).abort()
            raise

    def go_on(self) -> None:
        """Wait for a turn if there is something to parse, and read only if it is little."""
        if self._transport is None or self._is_closing:
            return
        if self._unread and not (self._is_held or self._is_waiting):
            self._is_waiting = True
            self._turns.enter(self)
        if self._is_held or len(self._unread) > _PIECE:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def hold(self, *, is_held: bool) -> None:
        """Give the protocol nothing while it is held."""
        self._is_held = is_held
        self.go_on()

    @property
    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()


class _PacedTransport(asyncio.Transport):
    """The transport that a protocol sees: pauses also hold back what was read already."""

    def __init__(self, connection: PacedConnection, transport: asyncio.Transport) -> None:
        super().__init__()
        self._connection, self._transport = connection, transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._connection.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._connection.protocol

    def pause_reading(self) -> None:
        self._connection.hold(is_held=True)

    def resume_reading(self) -> None:
        self._connection.hold(is_held=False)

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def write_eof(self) -> None:
        self._transport.write_eof()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)
