"""A proxy that cuts connections after so many bytes of the server, as failing networks do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from .server_tools import reset

_BLOCK = 1 << 12


class CuttingProxy:
    """Relays connections to a port of this machine, and cuts each of them.

    Args:
        port: of the server.
        most: bytes of the server that a client gets.
        resets: whether connections are reset, and not closed.

    Attributes:
        url: of HTTP through it.
        port: that it listens on.
        cuts: how many connections it has cut.
    """

    def __init__(self, port: int, most: int, *, resets: bool) -> None:
        self._target, self._most, self._resets = port, most, resets
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.cuts = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Take no more connections, and wait for those that are there."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._target))
                for relay in (self._ask, self._answer):
                    thread = threading.Thread(target=relay, args=(client, server), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(_BLOCK):
                server.sendall(data)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        left = self._most
        with contextlib.suppress(OSError):
            while left and (data := server.recv(min(_BLOCK, left))):
                left -= len(data)
                client.sendall(data)
        self.cuts += not left
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # which ends the other thread's wait
            reset(end) if self._resets else end.close()


@contextlib.contextmanager
def cutting_proxy(port: int, most: int, *, resets: bool) -> Iterator[CuttingProxy]:
    """Run a proxy within this context."""
    proxy = CuttingProxy(port, most, resets=resets)
    try:
        yield proxy
    finally:
        proxy.close()
