"""The connections of HTTP and WebSocket: how many there may be, and how long each may be silent.

A connection owes a request from the moment it is accepted, and again after each answer. While the
limit is reached, the connection that owes one for the longest time makes room for a newcomer, so a
crowd of silent connections shuts no client out.
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

from .request_logs import RateLimitedLogger
from .settings import Settings

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 0.5
# A connection that is younger may have its request under way: it makes no room for another one.
_LEAST_AGE = 0.25


class Connection:
    """An accepted connection.

    Args:
        sock: its socket.
        host: the address at its other end.
        connections: that it is one of.

    Attributes:
        transport: of asyncio, once TLS' handshake is over.
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
        """Seconds since it began to owe what it owes."""
        return self._connections.clock() - self._since

    def expect_within(self, seconds: float) -> None:
        """From now on it owes something, and has so many seconds for that."""
        self._since, self._allowed = self._connections.clock(), seconds

    @contextmanager
    def request(self) -> Iterator[Callable[[], None]]:
        """While this lasts a request of the connection is read and answered.

        Gives what is to be called once the request is whole: the connection owes nothing then.
        """
        self._requests += 1
        # What reads the body keeps the time, and can say so; this is for all that reads none.
        self.expect_within(self._connections.head_seconds + self._connections.body_seconds)
        try:
            yield lambda: self._connections.mark_busy(self)
        finally:
            self._requests -= 1
            if not self._requests:
                self._connections.mark_idle(self)

    def is_overdue(self, stalled_seconds: float) -> bool:
        """Whether it has owed a request for too long, or left an answer unread for so long."""
        unsent = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if unsent and unsent != self._unsent:  # the client reads what it was sent last
            self._unsent, self._since = unsent, self._connections.clock()
        return self.age >= (stalled_seconds if unsent else self._allowed)

    def abort(self) -> None:
        """End it at once."""
        if self.transport is not None:
            self.transport.abort()
            return
        try:  # in the middle of TLS' handshake, which ends by this
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the client was quicker
            self._socket.close()


class Connections:
    """All open connections. For one asyncio loop.

    Args:
        settings: limits, and the proxies whose connections are those of many clients.
        most: connections at a time; those of the settings' limits by default.
        closed: told of each connection that is refused or cut, by the reason: ``full``,
            ``address`` or ``slow``.
        clock: seconds.
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
        self.most = settings.limits.connections if most is None else most
        self.head_seconds = settings.limits.head_seconds
        self.body_seconds = settings.limits.body_seconds
        self.clock = clock
        self._closed = closed
        self._open: set[Connection] = set()
        self._idle: OrderedDict[Connection, None] = OrderedDict()  # the longest first
        self._of: Counter[str] = Counter()
        self._rate_limited = RateLimitedLogger(logger)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, sock: socket.socket, host: str) -> Connection | None:
        """Take a connection that was just accepted; ``None`` where there is no place for it."""
        limits = self._limits
        if not is_shared(host, self._settings) and self._of[host] >= limits.connections_per_address:
            most = limits.connections_per_address
            if not self.make_room(host):
                self._refuse("address", f"{host} has {most} connections, which is the limit")
                return None
        if len(self._open) >= self.most and not self.make_room():
            self._refuse("full", f"{self.most} connections are open, which is the limit")
            return None
        connection = Connection(sock, host, self)
        self._open.add(connection)
        self._of[host] += 1
        self._idle[connection] = None
        return connection

    def remove(self, connection: Connection) -> None:
        """Its socket is closed."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._of[connection.host] -= 1
        if not self._of[connection.host]:
            del self._of[connection.host]

    def mark_busy(self, connection: Connection) -> None:
        """A request of the connection is answered."""
        self._idle.pop(connection, None)

    def mark_idle(self, connection: Connection) -> None:
        """The connection has no request."""
        if connection in self._open:
            connection.expect_within(self.head_seconds)
            self._idle[connection] = None

    def make_room(self, host: str | None = None) -> bool:
        """Cut the connection that has owed a request for the longest time, of ``host`` if one is
        given; whether there is one that is old enough."""
        for connection in self._idle:
            if host in (None, connection.host):
                if connection.age < _LEAST_AGE:
                    return False
                self._cut(
                    connection, "full" if host is None else "address", "others need its place"
                )
                return True
        return False

    def abort_overdue(self) -> None:
        """Cut the connections that have owed a request for too long."""
        for connection in list(self._idle):
            if connection.is_overdue(self._limits.stalled_seconds):
                self._cut(connection, "slow", "it sent no request, or took no answer, in time")

    async def watch(self) -> None:
        """Cut them while this runs."""
        while True:
            self.abort_overdue()
            await asyncio.sleep(min(_SWEEP_SECONDS, self.head_seconds / 4))

    def abort_idle(self) -> None:
        """Cut all that are not being answered."""
        for connection in list(self._idle):
            connection.abort()

    def abort_all(self) -> None:
        """Cut all."""
        for connection in list(self._open):
            connection.abort()

    def _cut(self, connection: Connection, reason: str, words: str) -> None:
        self._closed(reason)
        self._rate_limited.warning("a connection of %s is cut: %s", connection.host, words)
        connection.abort()
        self.remove(connection)

    def _refuse(self, reason: str, words: str) -> None:
        self._closed(reason)
        self._rate_limited.warning("a connection is refused: %s", words)


def is_shared(host: str, settings: Settings) -> bool:
    """Whether many clients may stand behind an address: a proxy's, or this machine's."""
    return is_loopback(host) or any(_is_of(host, proxy) for proxy in settings.trusted_proxies)


def is_loopback(host: str) -> bool:
    """Whether ``host`` is an address of this machine alone."""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def _is_of(host: str, proxy: str) -> bool:
    """Whether an address is that of a proxy, or in its network; ``*`` is all of them."""
    try:
        return proxy in ("*", host) or ip_address(host) in ip_network(proxy)
    except ValueError:
        return False
