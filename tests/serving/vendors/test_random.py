"""Random frames and events: the server survives them, holds nothing, and still speaks."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from ...support.protocol_clients import PROTOCOL_CLIENTS
from ...support.server_tools import WholeServer, whole_server
from ...support.serving_tools import PATIENCE, with_limits
from ...support.vendor_tools import SEED, TEXT, VOICE, max_difference, talker

pytestmark = pytest.mark.slow

SOCKETS = {
    "/v1/text-to-speech/edith/stream-input": ("text", "flush", "voice_settings", "xi_api_key"),
    "/v1/text-to-speech/edith/multi-stream-input": (
        "text",
        "context_id",
        "flush",
        "close_context",
        "close_socket",
        "voice_settings",
    ),
    "/v1/speak": ("type", "text"),
    "/tts/websocket": (
        "transcript",
        "voice",
        "output_format",
        "context_id",
        "continue",
        "flush",
        "cancel",
        "max_buffer_delay_ms",
        "add_timestamps",
        "generation_config",
    ),
    "/v1/realtime": ("type", "text", "session"),
}
EVENTS = (
    "describe",
    "synthesize",
    "synthesize-start",
    "synthesize-chunk",
    "synthesize-stop",
    "audio-start",
)
VALUES: tuple[Any, ...] = (
    *("", " ", "a", "edith", TEXT, "\ud800", "\0", "q" * 150, "x" * 3000, "Speak", "Flush"),
    *("Clear", "Close", "input_text.append", "input_text.commit", "input_text.done", "nobody"),
    *("clara:0", "synthesize_session.update", {"id": "edith"}, {"speed": 9e9}, {"speed": 1.1}),
    {"name": "edith"},
    {"container": "raw", "encoding": "pcm_f32le"},
    {"output_audio_params": {"audio_format": "flac"}, "custom_configuration": {"speed": "x"}},
    *(None, True, False, 0, -1, 2**70, 1e308, [], [[]], {}),
)


@pytest.fixture(scope="module")
def open_server() -> Iterator[WholeServer]:
    limits = with_limits(message_bytes=4096, characters=1000, contexts=3)
    with whole_server(wyoming_port=0, **limits) as running:
        yield running


def frame(draw: random.Random, names: tuple[str, ...]) -> str | bytes:
    kind = draw.random()
    if kind < 0.05:
        return draw.randbytes(draw.randrange(200))
    if kind < 0.1:
        return draw.choice(["", "[", "[]", "null", '{"a": NaN}', "[" * 3000, '{"text": "\\ud800"}'])
    chosen = draw.sample(names, draw.randint(1, len(names)))
    return json.dumps({name: draw.choice(VALUES) for name in chosen})


@pytest.mark.parametrize("path", SOCKETS)
def test_random_frames(
    open_server: WholeServer, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(path)
    for _ in range(15):
        with (
            talker(open_server, path, close_timeout=0.5) as client,
            contextlib.suppress(ConnectionClosed),
        ):
            for _ in range(draw.randint(1, 20)):
                client.connection.send(frame(draw, SOCKETS[path]))
            with contextlib.suppress(TimeoutError):
                while draw.random() < 0.8:
                    client.connection.recv(0.05)
    check(open_server, caplog)


def test_random_events(open_server: WholeServer, caplog: pytest.LogCaptureFixture) -> None:
    draw = random.Random(1)
    assert open_server.wyoming_port is not None
    for _ in range(150):
        with (
            socket.create_connection(("127.0.0.1", open_server.wyoming_port), PATIENCE) as client,
            contextlib.suppress(ConnectionError, TimeoutError),
        ):
            client.settimeout(0.05)
            for _ in range(draw.randint(1, 12)):
                names = ("text", "voice", "context", "text_format")
                data = {name: draw.choice(VALUES) for name in names if draw.random() < 0.4}
                event: dict[str, Any] = {"type": draw.choice(EVENTS), "data": data}
                if draw.random() < 0.2:
                    name = draw.choice(("data_length", "payload_length", "data", "type"))
                    event[name] = draw.choice((0, 3, 3000, 2**40, -1, "x", None, []))
                line = json.dumps(event).encode() + b"\n"
                client.sendall(draw.randbytes(40) if draw.random() < 0.05 else line)
            while draw.random() < 0.7 and client.recv(4096):
                pass
    check(open_server, caplog)


def check(server: WholeServer, caplog: pytest.LogCaptureFixture) -> None:
    """Check that nothing is left of the clients, and that nothing failed."""
    assert server.becomes_idle()
    assert server.service._holds == 0
    failures = [
        record.getMessage()
        for record in caplog.records
        if record.levelname in ("ERROR", "CRITICAL") and not record.name.startswith("websockets")
    ]
    assert not failures
    whole = server.offline(TEXT, SEED, VOICE)
    for ask in PROTOCOL_CLIENTS[2:5]:
        assert max_difference(ask(server, TEXT, VOICE, SEED), (whole * 32767).round()) <= 1
