"""Clients in threads that listen to streams over each interface, and say whether they were cut."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

import grpc
import httpx
import riva.client
from websockets.exceptions import ConnectionClosed

from .serving_tools import PATIENCE
from .websocket_tools import speaker

SEED = 11
NOTHING: Mapping[str, str] = MappingProxyType({})
CUT = (httpx.HTTPError, ConnectionClosed, grpc.RpcError, EOFError)
PCM = {"response_format": "pcm", "seed": SEED}
RIVA = {
    "sample_rate_hz": 24_000,
    "encoding": riva.client.AudioEncoding.LINEAR_PCM,
    "custom_configuration": {"seed": str(SEED)},
}


class Reachable(Protocol):
    """A server, or a proxy in front of servers."""

    @property
    def url(self) -> str:
        """URL of REST and WebSocket."""

    def riva_client(self) -> contextlib.AbstractContextManager[riva.client.SpeechSynthesisService]:
        """Return Riva's client, within a context."""


Parts = Generator[bytes, None, None]
# A way yields the parts of a text's sound. It raises one of CUT if the transfer was not complete.
Way = Callable[[Reachable, str], Parts]


def by_rest(server: Reachable, text: str, headers: Mapping[str, str] = NOTHING) -> Parts:
    body = {"input": text, **PCM}
    with post(server, body, headers) as answer:
        yield from answer.iter_raw()


def by_events(server: Reachable, text: str) -> Parts:
    body = {"input": text, "stream_format": "sse", **PCM}
    with post(server, body) as answer:
        for line in filter(None, answer.iter_lines()):
            event = json.loads(line.removeprefix("data: "))
            if event["type"] == "speech.audio.done":
                return
            yield base64.b64decode(event["audio"])
    raise EOFError("the events ended without the last one")


def by_socket(server: Reachable, text: str) -> Parts:
    with speaker(server) as socket:
        socket.say("session.config", seed=SEED)
        socket.say("input.text", text=text)
        socket.say("input.done")
        while socket.hear()["type"] != "session.done":
            yield bytes(socket.audio.pop(None, b""))


def by_riva(server: Reachable, text: str) -> Parts:
    with server.riva_client() as client:
        for part in client.synthesize_online(text, **RIVA):
            yield part.audio


def by_call(server: Reachable, text: str) -> Parts:
    """Yield the whole sound, as the answer of one call."""
    with server.riva_client() as client:
        yield client.synthesize(text, **RIVA).audio


WAYS: tuple[Way, ...] = (by_rest, by_events, by_socket, by_riva)


@contextlib.contextmanager
def post(
    server: Reachable, body: Mapping[str, object], headers: Mapping[str, str] = NOTHING
) -> Iterator[httpx.Response]:
    """Yield the answer to a request for speech, whose status is that of success."""
    url = f"{server.url}/v1/audio/speech"
    with httpx.stream("POST", url, json=body, headers=dict(headers), timeout=PATIENCE) as answer:
        answer.raise_for_status()
        yield answer


class Listener:
    """A client that listens to a text in a thread of its own, which starts at once.

    Attributes:
        sound: the bytes that came.
    """

    def __init__(self, way: Way, server: Reachable, text: str) -> None:
        self.way, self.sound = way, bytearray()
        self._begun, self._left = threading.Event(), threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._listen, args=(server, text), daemon=True)
        self._thread.start()

    def begun(self) -> Listener:
        """Wait for the first sound; return this listener."""
        assert self._begun.wait(PATIENCE)
        assert self.sound, self._error
        return self

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return not self._thread.is_alive()

    def leave(self) -> None:
        """Disconnect when the next part comes."""
        self._left.set()

    def whole(self) -> bool:
        """Wait for the end; return whether the transfer was complete."""
        self._thread.join(2 * PATIENCE)
        assert self.is_over
        return self._error is None

    def _listen(self, server: Reachable, text: str) -> None:
        try:
            with contextlib.closing(self.way(server, text)) as parts:
                for part in parts:
                    self.sound += part
                    if self.sound:
                        self._begun.set()
                    if self._left.is_set():
                        break
        except CUT as error:
            self._error = error
        finally:
            self._begun.set()
