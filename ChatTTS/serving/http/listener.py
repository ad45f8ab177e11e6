"""Listening sockets, and accepting connections on them.

When the process may open no more files, asyncio's own accept loop retries at full speed and logs
each attempt. This one closes an idle connection instead, or drops the new one.
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

from ...errors import ConfigError
from ..observe.request_logs import RateLimitedLogger
from ..settings import Settings
from .connections import Connection, Connections

logger = logging.getLogger(__name__)

_BACKLOG = 1024
# Errors of ``accept`` when the process or the system has run out of a resource.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS = 0.05
# File descriptors that are reserved for other uses: weights, voices, logs, pipes of threads.
_RESERVED_FILES = 64
_MAX_FILES = 1 << 16

# Makes the protocol that answers a connection.
Connect = Callable[[Connection], asyncio.Protocol]


def bind(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a socket that is bound to this address and does not listen yet.

    Args:
        option: the command-line option that chooses the port, for the error message.

    Raises:
        ConfigError: the address cannot be bound; the message names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only for sockets that name their protocol. With it, a
    # message behind another one would wait up to 40 ms for the client's acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.setblocking(False)
    except (OSError, OverflowError) as error:  # OverflowError: the port is out of range
        bound.close()
        raise _bind_error(host, port, option, error) from error
    return bound


def _bind_error(host: str, port: int, option: str, error: Exception) -> ConfigError:
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
        # Without a password, OpenSSL would ask for one on the terminal if the key is encrypted.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise ConfigError(
            f"TLS cannot use the certificate {certificate} with the key {key} "
            f"({error.strerror or error}); give a certificate and its key in PEM, the key "
            "without a password"
        ) from error


@asynccontextmanager
async def accept_connections(
    bound: socket.socket,
    connections: Connections,
    connect: Connect,
    tls: ssl.SSLContext | None,
) -> AsyncIterator[None]:
    """Accept connections within this context.

    Args:
        bound: the socket of :func:`bind`; it is closed at the end.
        connections: registers each connection, or refuses it.
        connect: makes the protocol of a connection.
        tls: settings of TLS; ``None`` accepts plain connections.

    Raises:
        ConfigError: another program has begun to listen there since the socket was bound.
    """
    try:
        bound.listen(_BACKLOG)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        bound.close()
        raise _bind_error(host, port, "--port", error) from error
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
    """A socket that calls ``on_close`` once, when it is closed."""

    on_close: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.on_close is not None:
            self.on_close()
            self.on_close = None


class _Acceptor:
    """Accepts the connections of one listening socket."""

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
                    self._make_room(error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                continue  # any other error: the client closed the connection before
            self._admit(_notifying(sock), str(address[0]))

    def close(self) -> None:
        """Cancel handshakes and close the spare file."""
        for task in self._handshakes:
            task.cancel()
        if self._spare is not None:
            os.close(self._spare)

    def _admit(self, sock: _NotifyingSocket, host: str) -> None:
        connection = self._connections.admit(sock, host)
        if connection is None:
            sock.close()
            return
        sock.on_close = lambda: self._connections.remove(connection)
        task = asyncio.create_task(self._handshake(sock, connection), name="connection")
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _handshake(self, sock: _NotifyingSocket, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        try:
            # A client that never completes the TLS handshake is closed as an idle connection.
            connection.transport, _ = await loop.connect_accepted_socket(
                lambda: self._connect(connection), sock, ssl=self._tls
            )
        except OSError as error:  # the client is gone, or does not speak TLS
            logger.debug("a connection of %s did not begin: %s", connection.host, error)
            sock.close()

    def _make_room(self, error: OSError) -> None:
        """Close an idle connection; if there is none, accept one connection and close it.

        A connection that stays in the backlog would wake the loop again and again.
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


def _notifying(sock: socket.socket) -> _NotifyingSocket:
    """Return the connection as a socket that calls ``on_close``; ``sock`` is detached."""
    notifying = _NotifyingSocket(sock.family, sock.type, sock.proto, fileno=sock.detach())
    notifying.setblocking(False)
    return notifying


# ------------------------------------------------------------------ limits of open files


def connection_limits(settings: Settings) -> tuple[int, int]:
    """Return how many connections of HTTP and of gRPC the process can have open.

    These are the limits of ``settings``, or fewer where the system allows fewer open files.
    """
    most = settings.limits.connections
    left = _available_files()
    if left is None:
        return most, most
    http = max(1, min(most, left if settings.grpc_port is None else left * 2 // 3))
    grpc = max(1, min(most, left - http))
    if http < most:
        logger.warning(
            "the limit of open files allows %d connections at a time instead of %d: raise it "
            "(ulimit -n, LimitNOFILE of systemd)",
            http,
            most,
        )
    return http, grpc


def _available_files() -> int | None:
    try:
        import resource

        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft == resource.RLIM_INFINITY:
            return None
        opened = (
            len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else _RESERVED_FILES
        )
    except ImportError:  # Windows has no such limit
        return None
    return soft - opened - _RESERVED_FILES


@contextmanager
def raised_file_limit() -> Iterator[None]:
    """Raise the process's limit of open files within this context, up to the system's maximum.

    The default limit of a shell is often 1024, because of old programs that use ``select``.
    """
    try:
        import resource
    except ImportError:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
