"""A plain client of the protocols of other vendors, for tests."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from ChatTTS.serving.protocols.cartesia import add_to as add_cartesia
from ChatTTS.serving.protocols.deepgram import add_to as add_deepgram
from ChatTTS.serving.protocols.elevenlabs import add_to as add_elevenlabs
from ChatTTS.serving.protocols.websocket import add_to as add_websocket

from .serving_tools import PATIENCE, RunningServer

KEY = "sesame"
SEED = 7
VOICE = "alloy"
TEXT = "The lamp was lit. Nobody knew why."
EXTEND = [add_websocket, add_elevenlabs, add_deepgram, add_cartesia]


class Talker:
    """A client on one socket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def say(self, **fields: Any) -> None:
        """Send a message."""
        self.connection.send(json.dumps(fields))

    def hear(self) -> dict[str, Any] | bytes:
        """Return the next message, or a binary frame."""
        frame = self.connection.recv(PATIENCE)
        if isinstance(frame, bytes):
            return frame
        message: dict[str, Any] = json.loads(frame)
        return message

    def until_closed(self) -> list[dict[str, Any]]:
        """Return the messages up to the closing of the socket."""
        heard: list[dict[str, Any]] = []
        with contextlib.suppress(ConnectionClosed):
            while True:
                message = self.hear()
                assert isinstance(message, dict)
                heard.append(message)
        return heard

    @property
    def close_code(self) -> int | None:
        """The closing code that came."""
        return self.connection.close_code


@contextlib.contextmanager
def talker(server: RunningServer, path: str, **options: Any) -> Iterator[Talker]:
    """Yield a client on an open socket until the end of the block."""
    url = f"{server.url.replace('http', 'ws', 1)}{path}"
    with connect(url, proxy=None, open_timeout=PATIENCE, **options) as connection:
        assert isinstance(connection, ClientConnection)
        yield Talker(connection)


def get(server: RunningServer, path: str, **headers: str) -> httpx.Response:
    """Return the answer to a GET."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.get(f"{server.url}{path}", headers=sent, timeout=PATIENCE)


def post(server: RunningServer, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    """Return the answer to a POST of JSON."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(f"{server.url}{path}", json=body, headers=sent, timeout=PATIENCE)


def pcm(data: bytes) -> NDArray[np.int16]:
    """Return the samples of PCM, int16 (n,)."""
    return np.frombuffer(data, "<i2")


def max_difference(data: bytes, expected: NDArray[np.int16]) -> int:
    """Return the largest difference of PCM to a waveform of equal length."""
    samples = pcm(data)
    assert len(samples) == len(expected)
    return int(np.abs(samples.astype(int) - expected.astype(int)).max())
