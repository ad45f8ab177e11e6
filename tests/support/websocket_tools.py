"""A client of the speech socket, for tests."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from ChatTTS.serving.protocols.websocket import PATH, add_to

from .serving_tools import PATIENCE, RunningServer, eventually

SPOKEN = ("stop", "length")  # finish reasons of a spoken utterance
SENTENCES = ["The lamp was lit.", " Nobody knew why.", " We went home."]
TEXT = "".join(SENTENCES)
LONG = "The lighthouse had been dark for eleven years. Then somebody lit the lamp again. " * 8
EXTEND = [add_to]


class Speaker:
    """A client on one socket.

    Attributes:
        messages: all messages received, except binary frames of sound.
        audio: the PCM bytes of each context since :meth:`samples` last took them.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.messages: list[dict[str, Any]] = []
        self.audio: defaultdict[str | None, bytearray] = defaultdict(bytearray)
        self._owner: tuple[str | None, int] | None = None

    def say(self, kind: str, context: str | None = None, **fields: Any) -> None:
        """Send a message."""
        name = {} if context is None else {"context_id": context}
        self.connection.send(json.dumps({"type": kind, **name, **fields}))

    def hear(self) -> dict[str, Any]:
        """Return the next message; sound is stored, and returned as a message of type ``sound``."""
        frame = self.connection.recv(PATIENCE)
        if isinstance(frame, bytes):
            owner, length = self._owner or (None, len(frame))
            assert length == len(frame)
            self._owner = None
            self.audio[owner] += frame
            return {"type": "sound", "context_id": owner}
        assert self._owner is None, "a frame must follow its audio.chunk"
        message: dict[str, Any] = json.loads(frame)
        self.messages.append(message)
        if message["type"] == "audio.chunk":
            owner = message.get("context_id")
            if message["position"] == 0:  # a new session, or a context whose name is used again
                self.audio[owner].clear()
            assert message["position"] == len(self.audio[owner]) // 2
            self._owner = owner, message["bytes"]
        elif message["type"] == "audio.delta":
            self.audio[message.get("context_id")] += base64.b64decode(message["audio"])
        return message

    def until(self, kind: str, context: str | None = None) -> dict[str, Any]:
        """Listen until a message of this type comes; return it."""
        while True:
            message = self.hear()
            assert kind == "error" or message["type"] != "error", message
            if message["type"] == kind and message.get("context_id") == context:
                return message

    def until_closed(self) -> int | None:
        """Listen until the socket is closed; return the close code."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                self.hear()
        return self.connection.close_code

    def samples(self, context: str | None = None) -> NDArray[np.int16]:
        """Take the PCM of a context so far, int16 (n,)."""
        return np.frombuffer(bytes(self.audio.pop(context, b"")), "<i2")

    def all(self, kind: str, context: str | None = None) -> list[dict[str, Any]]:
        """Return the messages of this type that came."""
        return [m for m in self.messages if m["type"] == kind and m.get("context_id") == context]


class Address(Protocol):
    """Something that listens at a URL."""

    @property
    def url(self) -> str:
        """URL of its root, without a slash at the end."""


@contextlib.contextmanager
def speaker(server: Address, query: str = "", **options: Any) -> Iterator[Speaker]:
    """Yield a client on an open socket until the end of the block."""
    url = f"{server.url.replace('http', 'ws', 1)}{PATH}{query}"
    if url.startswith("wss:"):
        # This client reads in a thread. Before Python 3.13 the session tickets that TLS 1.3 sends
        # after its handshake may come while another thread writes, whose bytes are then lost.
        options["ssl"] = context = ssl.create_default_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect(url, proxy=None, open_timeout=PATIENCE, **options) as connection:
        assert isinstance(connection, ClientConnection)
        yield Speaker(connection)


def is_over(server: RunningServer) -> bool:
    """Wait until no socket has any work or task left; return whether that happened."""

    def tasks() -> list[str]:
        names = (task.get_name() for task in asyncio.all_tasks())
        return [name for name in names if name.startswith(("socket", "context", "utterance"))]

    return server.becomes_idle() and eventually(lambda: not server.call(tasks))


def refused(server: RunningServer, **options: Any) -> tuple[int | None, str | None]:
    """Open a socket that the server closes without a message; return its code and reason."""
    with speaker(server, **options) as socket:
        code = socket.until_closed()
        assert not socket.messages
        return code, socket.connection.close_reason
