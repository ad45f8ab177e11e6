"""A road between a client and a server, on which a connection is cut, half closed or slow."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from types import TracebackType

_PART = 4096
_STALL_SECONDS = 4.0  # longer than a server lets a silent reader keep its place
_SLOW_BYTES = 96_000  # a second; speech of 16 bits at 24 kHz plays at 48 000
_NOW_AND_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Conduct:
    """The behaviour of a client.

    Attributes:
        kind: ``stay``, ``cancel``, ``cut``, ``half close`` or ``slow``.
        after: seconds after which it does so.
    """

    kind: str = "stay"
    after: float = 0.0

    @property
    def leaves(self) -> bool:
        """Return whether the client may not get its whole answer."""
        return self.kind in ("cancel", "cut", "half close")


class Road:
    """A port of this machine that leads to another one; a context manager.

    Args:
        port: where it leads.
        conduct: what happens on it.

    Attributes:
        port: where it begins.
    """

    def __init__(self, port: int, conduct: Conduct) -> None:
        self._to, self._conduct = port, conduct
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Road:
        self._server = await asyncio.start_server(self._enter, "127.0.0.1", 0, limit=_PART)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._lead(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond = socket.socket()
        # A small buffer here, so that a slow reader is noticed by the server.
        beyond.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _PART)
        beyond.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(beyond, ("127.0.0.1", self._to))
            theirs, there = await asyncio.open_connection(sock=beyond, limit=_PART)
        except BaseException:
            beyond.close()
            raise
        pumps = [
            asyncio.create_task(self._pump(reader, there, is_slow=False)),
            asyncio.create_task(self._pump(theirs, writer, self._conduct.kind == "slow")),
        ]
        try:
            if self._conduct.kind in ("cut", "half close"):
                await asyncio.wait(pumps[1:], timeout=self._conduct.after)
                if self._conduct.kind == "cut":
                    beyond_socket = there.get_extra_info("socket")
                    beyond_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW_AND_RESET)
                    return
                pumps[0].cancel()
                with contextlib.suppress(OSError, RuntimeError):
                    there.write_eof()
            await pumps[1]
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            there.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_slow: bool
    ) -> None:
        is_first = True
        while part := await source.read(_PART):
            sink.write(part)
            await sink.drain()
            if is_slow:
                await asyncio.sleep(_STALL_SECONDS if is_first else len(part) / _SLOW_BYTES)
                is_first = False
        await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
