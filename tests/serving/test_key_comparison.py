"""Keys are compared by their digests alone, in constant time, whichever interface they come by."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator

import grpc
import httpx
import pytest
import riva.client.proto.riva_tts_pb2 as tts
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from ChatTTS.serving.http import auth

from ..support.server_tools import WholeServer, whole_server
from ..support.serving_tools import PATIENCE

KEYS = ("sesame", "a-much-longer-key-than-the-others", "third")
WRONG = "sesamf"


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(api_keys=KEYS) as server:
        yield server


def posted(path: str, **headers: str) -> Callable[[WholeServer, str], object]:
    """Return a request whose headers have the key in the place of ``KEY``."""

    def post(server: WholeServer, key: str) -> object:
        given = {name.replace("_", "-"): text.replace("KEY", key) for name, text in headers.items()}
        return httpx.post(server.url + path, json={}, headers=given, timeout=PATIENCE)

    return post


def opened(
    path: str, message: dict[str, str] | None = None, **headers: str
) -> Callable[[WholeServer, str], object]:
    """Return a WebSocket with the key in its headers, its address or its first message."""

    def open_socket(server: WholeServer, key: str) -> object:
        given = {name.replace("_", "-"): text.replace("KEY", key) for name, text in headers.items()}
        url = server.url.replace("http", "ws", 1) + path.replace("KEY", key)
        with (
            contextlib.suppress(InvalidStatus, ConnectionClosed),
            connect(url, additional_headers=given, proxy=None, open_timeout=PATIENCE) as socket,
        ):
            if message is not None:
                socket.send(json.dumps(message).replace("KEY", key))
            list(socket)
        return None

    return open_socket


def called(server: WholeServer, key: str) -> object:
    with server.channel() as channel, contextlib.suppress(grpc.RpcError):
        service = "/nvidia.riva.tts.RivaSpeechSynthesis/Synthesize"
        call = channel.unary_unary(service, tts.SynthesizeSpeechRequest.SerializeToString)
        metadata = [("authorization", f"Bearer {key}")]
        return call(tts.SynthesizeSpeechRequest(), metadata=metadata, timeout=PATIENCE)
    return None


WAYS: dict[str, Callable[[WholeServer, str], object]] = {
    "REST": posted("/v1/audio/speech", authorization="Bearer KEY"),
    "WebSocket": opened("/v1/audio/speech/stream", authorization="Bearer KEY"),
    "its address": opened("/v1/audio/speech/stream?api_key=KEY"),
    "its message": opened("/v1/audio/speech/stream", {"type": "session.auth", "api_key": "KEY"}),
    "gRPC": called,
    "realtime": opened("/v1/realtime?intent=synthesis", authorization="Bearer KEY"),
    "ElevenLabs": posted("/v1/text-to-speech/alloy", xi_api_key="KEY"),
    "its socket": opened("/v1/text-to-speech/alloy/stream-input", xi_api_key="KEY"),
    "its text": opened("/v1/text-to-speech/alloy/stream-input", {"text": " ", "xi_api_key": "KEY"}),
    "Deepgram": posted("/v1/speak", authorization="Token KEY"),
    "Deepgram's socket": opened("/v1/speak", authorization="Token KEY"),
    "Cartesia": posted("/tts/bytes", x_api_key="KEY"),
    "Cartesia's socket": opened("/tts/websocket?api_key=KEY"),
}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes]]:
    """Return the pairs that are compared within a test."""
    pairs: list[tuple[bytes, bytes]] = []

    class Comparison:
        """``hmac`` that notes what it compares."""

        @staticmethod
        def compare_digest(given: bytes, known: bytes) -> bool:
            pairs.append((given, known))
            return hmac.compare_digest(given, known)

    monkeypatch.setattr(auth, "hmac", Comparison)
    return pairs


def pairs_of(given: str) -> list[tuple[bytes, bytes]]:
    """Return the digest of a key beside that of each valid key."""
    first, *others = (hashlib.sha256(key.encode()).digest() for key in (given, *KEYS))
    return [(first, known) for known in others]


@pytest.mark.parametrize("way", WAYS)
def test_every_key_is_compared_by_its_digest(
    way: str, server: WholeServer, compared: list[tuple[bytes, bytes]]
) -> None:
    WAYS[way](server, WRONG)
    assert compared == pairs_of(WRONG)


@pytest.mark.parametrize("key", KEYS)
def test_the_right_key_is_compared_with_all(key: str, compared: list[tuple[bytes, bytes]]) -> None:
    auth.Authenticator(KEYS).client(key, "")
    assert compared == pairs_of(key)
