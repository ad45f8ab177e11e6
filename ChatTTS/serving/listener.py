"""Addresses to listen on, and the connections that come in.

asyncio's own way to accept tries on at full speed, and logs each try, while the process may open no
more files. This one makes room, or lets the newcomer go.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from ..errors import ConfigError
from .connections import Connection, Connections
from .request_logs import RateLimitedLogger
from .settings import Settings

logger = logging.getLogger(__name__)

_BACKLOG = 1024
# What a process may lack when it accepts.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS = 0.05
# Files that are left for all else than connections: weights, voices, logs, threads' pipes.
_FILES_LEFT = 64
_MOST_FILES = 1 << 16

# What answers a connection.
Connect = Callable[[Connection], asyncio.Protocol]


def bind(host: str, port: int, option: str = "--port") -> socket.socket:
    """A socket on this address, which does not listen yet.

    Args:
        option: of the command line, by which the port is chosen.

    Raises:
        ConfigError: the address cannot be had; it is named.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.setblocking(False)
    except (OSError, OverflowError) as error:  # the latter: no such port can be
        bound.close()
        raise _refused(host, port, option, error) from error
    return bound


def _refused(host: str, port: int, option: str, error: Exception) -> ConfigError:
    reason = getattr(error, "strerror", None) or str(error)
    return ConfigError(
        f"cannot listen on {host}:{port} ({reason}); choose another {option}, or another --host"
    )


def check_tls(settings: Settings) -> None:
    """Raise ConfigError if the certificate and its key cannot be used."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None:
        return
    try:
        # An empty password, as OpenSSL would ask on the terminal for that of a locked key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise ConfigError(
            f"TLS cannot use the certificate {certificate} with the key {key} "
            f"({error.strerror or error}); name files in PEM that belong together, the key without "
            "a password"
        ) from error


@asynccontextmanager
async def accept_connections(
    bound: socket.socket,
    connections: Connections,
    connect: Connect,
    tls: ssl.SSLContext | None,
) -> AsyncIterator[None]:
    """Accept connections until the end of the block.

    Args:
        bound: see :func:`bind`; it is closed at the end.
        connect: gives what answers a connection.

    Raises:
        ConfigError: another program listens there since the socket was bound.
    """
    try:
        bound.listen(_BACKLOG)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        bound.close()
        raise _refused(host, port, "--port", error) from error
    acceptor = _Acceptor(bound, connections, connect, tls)
    tasks = [
        asyncio.create_task(acceptor.run(), name="acceptor"),
        asyncio.create_task(connections.watch(), name="connections"),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        bound.close()
        acceptor.close()


class _NotifyingSocket(socket.socket):
    """A socket that tells when it is closed."""

    on_close: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.on_close is not None:
            self.on_close()
            self.on_close = None


class _Acceptor:
    """Accepts the connections of one address."""

    def __init__(
        self,
        bound: socket.socket,
        connections: Connections,
        connect: Connect,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._bound, self._connections = bound, connections
        self._connect, self._tls = connect, tls
        self._rate_limited = RateLimitedLogger(logger)
        self._handshakes: set[asyncio.Task[None]] = set()
        self._spare = self._open_spare()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(self._bound)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._shed(error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                continue  # else the client was gone already
            self._take(_owned(sock), str(address[0]))

    def close(self) -> None:
        """Let go of what it holds."""
        for task in self._handshakes:
            task.cancel()
        if self._spare is not None:
            os.close(self._spare)

    def _take(self, sock: _NotifyingSocket, host: str) -> None:
        connection = self._connections.admit(sock, host)
        if connection is None:
            sock.close()
            return
        sock.on_close = lambda: self._connections.remove(connection)
        task = asyncio.create_task(self._begin(sock, connection), name="connection")
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _begin(self, sock: _NotifyingSocket, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        try:
            # A client that does not end TLS' handshake is cut like one that sends nothing.
            connection.transport, _ = await loop.connect_accepted_socket(
                lambda: self._connect(connection), sock, ssl=self._tls
            )
        except OSError as error:  # the client has gone, or speaks no TLS
            logger.debug("a connection of %s did not begin: %s", connection.host, error)
            sock.close()

    def _shed(self, error: OSError) -> None:
        """Make room; where that cannot be, take one connection only to end it.

        It would wake the loop again and again otherwise.
        """
        self._rate_limited.warning("no more connections can be accepted (%s)", error.strerror)
        if self._connections.make_room() or self._spare is None:
            return
        os.close(self._spare)
        with contextlib.suppress(OSError):
            self._bound.accept()[0].close()
        self._spare = self._open_spare()

    def _open_spare(self) -> int | None:
        try:
            return os.open(os.devnull, os.O_RDONLY)
        except OSError:
            return None


def _owned(sock: socket.socket) -> _NotifyingSocket:
    """A connection as a socket that tells when it is closed."""
    owned = _NotifyingSocket(sock.family, sock.type, sock.proto, fileno=sock.detach())
    owned.setblocking(False)
    return owned


# ------------------------------------------------------------------ files that may be open


def connection_limits(settings: Settings) -> tuple[int, int]:
    """How many connections of HTTP, and of gRPC, fit into what the process may open.

    As many as the limits say, unless the system allows fewer files.
    """
    most = settings.limits.connections
    left = _files_left()
    if left is None:
        return most, most
    http = max(1, min(most, left if settings.grpc_port is None else left * 2 // 3))
    grpc = max(1, min(most, left - http))
    if http < most:
        logger.warning(
            "this process may open so few files that it takes %d connections at a time and not %d: "
            "raise the limit (ulimit -n, LimitNOFILE of systemd)",
            http,
            most,
        )
    return http, grpc


def _files_left() -> int | None:
    try:
        import resource

        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft == resource.RLIM_INFINITY:
            return None
        opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else _FILES_LEFT
    except ImportError:  # Windows has no such limit
        return None
    return soft - opened - _FILES_LEFT


@contextmanager
def raised_file_limit() -> Iterator[None]:
    """Within this context the process may open as many files as the system lets it, within reason.

    What a shell allows by itself is often 1024, for the sake of old programs that use ``select``.
    """
    try:
        import resource
    except ImportError:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
