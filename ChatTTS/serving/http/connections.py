"""Limits of HTTP and WebSocket connections: how many are open, and how long each may be idle.

A connection is idle from the moment it is accepted until its request has come as a whole, and
again after each answer. When the limit is reached, the connection that has been idle longest is
closed for a new one. So many idle connections cannot keep clients out.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_network

from ..observe.request_logs import RateLimitedLogger
from ..settings import Settings

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 0.5
# A connection that is idle for less time is never closed for another: its request may be under way.
_MIN_IDLE_SECONDS = 0.25


class Connection:
    """An accepted connection.

    Args:
        sock: its socket.
        host: address of the client.
        connections: the registry that it belongs to.

    Attributes:
        transport: asyncio's, once the TLS handshake is done.
    """

    def __init__(self, sock: socket.socket, host: str, connections: Connections) -> None:
        self.host = host
        self._socket = sock
        self.transport: asyncio.Transport | None = None
        self._connections = connections
        self._since, self._allowed = connections.clock(), connections.head_seconds
        self._requests = 0
        self._unsent = 0

    @property
    def age(self) -> float:
        """Seconds since the client's time for its next step began."""
        return self._connections.clock() - self._since

    def expect_within(self, seconds: float) -> None:
        """Give the client so many seconds from now for its next step."""
        self._since, self._allowed = self._connections.clock(), seconds

    @contextmanager
    def request(self) -> Iterator[Callable[[], None]]:
        """Mark that a request is read and answered within this context.

        Yields a function to call once the whole request has come: no time limit of this module
        counts from then on.
        """
        self._requests += 1
        # The body's reader has a shorter limit and answers with an error. This limit is for
        # routes that read no body.
        self.expect_within(self._connections.head_seconds + self._connections.body_seconds)
        try:
            yield lambda: self._connections.mark_busy(self)
        finally:
            self._requests -= 1
            if not self._requests:
                self._connections.mark_idle(self)

    def is_overdue(self, stalled_seconds: float) -> bool:
        """Return whether the client's time is over.

        Args:
            stalled_seconds: limit while the client does not read its last answer.
        """
        unsent = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if unsent and unsent != self._unsent:  # the client still reads its last answer
            self._unsent, self._since = unsent, self._connections.clock()
        return self.age >= (stalled_seconds if unsent else self._allowed)

    def abort(self) -> None:
        """Close it at once; unsent data is dropped."""
        if self.transport is not None:
            self.transport.abort()
            return
        try:  # this ends the TLS handshake
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the client closed it first
            self._socket.close()


class Connections:
    """All open connections. Belongs to one asyncio loop.

    Args:
        settings: limits, and the proxies through which many clients connect.
        most: maximum number of open connections; the limit of ``settings`` by default.
        closed: called for each connection that is refused or cut, with the reason: ``full``,
            ``address`` or ``slow``.
        clock: returns seconds.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        most: int | None = None,
        closed: Callable[[str], None] = lambda reason: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._limits = settings, settings.limits
        self._most = settings.limits.connections if most is None else most
        self.head_seconds = settings.limits.head_seconds
        self.body_seconds = settings.limits.body_seconds
        self.clock = clock
        self._closed = closed
        self._open: set[Connection] = set()
        self._idle: OrderedDict[Connection, None] = OrderedDict()  # longest idle first
        self._per_address: Counter[str] = Counter()
        self._rate_limited = RateLimitedLogger(logger)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, sock: socket.socket, host: str) -> Connection | None:
        """Register a connection that was just accepted; return ``None`` if a limit forbids it."""
        limits = self._limits
        if (
            not is_shared(host, self._settings)
            and self._per_address[host] >= limits.connections_per_address
        ):
            most = limits.connections_per_address
            if not self.make_room(host):
                self._refuse("address", f"{host} has {most} connections, which is the limit")
                return None
        if len(self._open) >= self._most and not self.make_room():
            self._refuse("full", f"{self._most} connections are open, which is the limit")
            return None
        connection = Connection(sock, host, self)
        self._open.add(connection)
        self._per_address[host] += 1
        self._idle[connection] = None
        return connection

    def remove(self, connection: Connection) -> None:
        """Forget a connection whose socket is closed; a second call does nothing."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._per_address[connection.host] -= 1
        if not self._per_address[connection.host]:
            del self._per_address[connection.host]

    def mark_busy(self, connection: Connection) -> None:
        """Note that a whole request has come, which is being answered."""
        self._idle.pop(connection, None)

    def mark_idle(self, connection: Connection) -> None:
        """Note that the connection has no request and the client may send one."""
        if connection in self._open:
            connection.expect_within(self.head_seconds)
            self._idle[connection] = None

    def make_room(self, host: str | None = None) -> bool:
        """Close the connection that has been idle longest.

        Args:
            host: only connections of this client address.

        Returns:
            Whether there was one that had been idle long enough.
        """
        for connection in self._idle:
            if host in (None, connection.host):
                if connection.age < _MIN_IDLE_SECONDS:
                    return False
                self._close(
                    connection, "full" if host is None else "address", "others need its place"
                )
                return True
        return False

    def abort_overdue(self) -> None:
        """Close the connections whose clients took too long."""
        for connection in list(self._idle):
            if connection.is_overdue(self._limits.stalled_seconds):
                self._close(connection, "slow", "it sent no request, or took no answer, in time")

    async def watch(self) -> None:
        """Call :meth:`abort_overdue` again and again, until cancelled."""
        while True:
            self.abort_overdue()
            await asyncio.sleep(min(_SWEEP_SECONDS, self.head_seconds / 4))

    def abort_idle(self) -> None:
        """Close all connections that have no request."""
        for connection in list(self._idle):
            connection.abort()

    def abort_all(self) -> None:
        """Close all connections."""
        for connection in list(self._open):
            connection.abort()

    def _close(self, connection: Connection, reason: str, words: str) -> None:
        self._closed(reason)
        self._rate_limited.warning("a connection of %s is cut: %s", connection.host, words)
        connection.abort()
        self.remove(connection)

    def _refuse(self, reason: str, words: str) -> None:
        self._closed(reason)
        self._rate_limited.warning("a connection is refused: %s", words)


def is_shared(host: str, settings: Settings) -> bool:
    """Return whether many clients may share an address: this machine's, or a proxy's."""
    return is_loopback(host) or any(_matches(host, proxy) for proxy in settings.trusted_proxies)


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is a loopback address."""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def _matches(host: str, proxy: str) -> bool:
    """Return whether an address is ``proxy``, or in this network; ``*`` is every address."""
    try:
        return proxy in ("*", host) or ip_address(host) in ip_network(proxy)
    except ValueError:
        return False
