"""A client over plain sockets, in one thread: it costs little beside the server that it measures.

Each request has a connection of its own, as clients that come at random moments have. Answers are
counted and dropped; a player's pauses are told by the moments at which the bytes came.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from .listening import BYTES_PER_SECOND, Listening

_PART = 1 << 18
_MOST_HEAD = 1 << 16
_TICK = 0.05  # seconds after which the moments are looked at again


class Answer:
    """An answer of PCM in chunks, as its bytes come.

    Attributes:
        heard: when parts of sound came, and why the answer is not whole, if it is not.
        sound: bytes of sound so far.
        is_over: whether nothing more comes.
    """

    def __init__(self) -> None:
        self.heard = Listening()
        self.sound, self.is_over = 0, False
        self._head: bytes | None = b""  # until the body begins
        self._line, self._left = b"", 0  # of the chunk

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection, which have just arrived; none at its end."""
        if not data:
            self.end("the connection ended before the answer did")
            return
        if self._head is not None:
            head, found, data = (self._head + data).partition(b"\r\n\r\n")
            if not found:
                self._head = head
                if len(head) > _MOST_HEAD:
                    self.end("the head of the answer has no end")
                return
            self._head = None
            status = head.split(b" ", 2)[1].decode()
            if status != "200" or b"transfer-encoding: chunked" not in head.lower():
                self.end(status if status != "200" else "the answer is not in chunks")
                return
        before = self.sound
        self._take(data)
        if self.sound > before:
            moment = time.monotonic() - self.heard.begin
            self.heard.arrivals.append((moment, self.sound - before))

    def end(self, error: str | None) -> None:
        """Note the end of the answer, and why it is not whole."""
        if not self.is_over:
            self.is_over, self.heard.error = True, error

    def _take(self, data: bytes) -> None:
        """Count the sound in bytes of the body."""
        at = 0
        while at < len(data):
            if self._left:
                count = min(self._left, len(data) - at)
                self._left -= count
                self.sound += count
                at += count
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._line += data[at:]
                return
            line, self._line, at = (self._line + data[at:end]).strip(), b"", end + 1
            if line:  # else it is the one behind a chunk
                self._left = int(line, 16)
                if not self._left:
                    self.end(None)
                    return

    @property
    def seconds(self) -> float:
        """Seconds of speech so far."""
        return self.sound / BYTES_PER_SECOND


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    answer: Answer
    request: bytes


class LeanClient:
    """Asks a server for speech over any number of connections.

    Args:
        url: of the server.
        fields: of each request's body, beside its text.

    Attributes:
        sound: bytes of sound that came in all answers.
    """

    def __init__(self, url: str, fields: dict[str, object]) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._fields = fields
        self._selector = selectors.DefaultSelector()
        self._open: set[_Connection] = set()
        self.sound = 0

    @property
    def is_idle(self) -> bool:
        """Return whether all answers are over."""
        return not self._open

    def ask(self, text: str) -> Answer:
        """Send a request; its answer comes while :meth:`listen` runs."""
        body = json.dumps({**self._fields, "input": text, "response_format": "pcm"}).encode()
        host, port = self._address
        head = (
            f"POST /v1/audio/speech HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection = _Connection(socket.socket(), Answer(), head.encode() + body)
        connection.socket.setblocking(False)
        connection.socket.connect_ex(self._address)
        self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)
        self._open.add(connection)
        return connection.answer

    def listen(self, until: float) -> Iterator[Answer]:
        """Receive until a moment of ``time.monotonic``, and yield each answer at its end.

        It ends sooner if no answer is coming any more.
        """
        while True:
            left = until - time.monotonic()
            for key, events in self._selector.select(max(0.0, min(left, _TICK))):
                connection: _Connection = key.data
                try:
                    self._move_on(connection, events)
                except OSError as error:
                    connection.answer.end(type(error).__name__)
                if connection.answer.is_over:
                    self._close(connection)
                    yield connection.answer
            if left <= 0 or not self._open:
                return

    def leave(self, error: str) -> list[Answer]:
        """Close all connections; return their answers, which are not whole because of ``error``."""
        left = list(self._open)
        for connection in left:
            connection.answer.end(error)
            self._close(connection)
        return [connection.answer for connection in left]

    def _move_on(self, connection: _Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            sent = connection.socket.send(connection.request)
            connection.request = connection.request[sent:]
            if not connection.request:
                self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
        if events & selectors.EVENT_READ:
            answer, before = connection.answer, connection.answer.sound
            with suppress(BlockingIOError):
                answer.feed(connection.socket.recv(_PART))
            self.sound += answer.sound - before

    def _close(self, connection: _Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._open.discard(connection)
