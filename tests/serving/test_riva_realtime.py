"""Riva's own realtime client on the WebSocket."""

from __future__ import annotations

import asyncio
import base64
import json
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from riva.client.realtime import RealtimeClientTTS
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from ChatTTS.audio.pcm import to_int16
from ChatTTS.serving.protocols.riva.realtime import add_to
from ChatTTS.serving.protocols.riva.realtime.routes import Tokens

from ..support.bundled_voice import NAMES
from ..support.server_tools import decoded
from ..support.serving_tools import PATIENCE, RunningServer, running_server

TEXT = "The sun was warm. We sat in the garden all day and read. It was late when we went home."
ALIASES = {"English-US.Female-1": "edith"}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(extend=[add_to], aliases=ALIASES) as running:
        yield running


@pytest.fixture(scope="module")
def spoken(server: RunningServer) -> bytes:
    """The sound of TEXT that the library gives without a server."""
    return to_int16(server.offline(TEXT, 5, "edith")).tobytes()


def arguments(server: RunningServer, **options: Any) -> Namespace:
    """Return the arguments of the client's script."""
    defaults: dict[str, Any] = {
        "server": server.address,
        "endpoint": "/v1/realtime",
        "query_params": "intent=synthesis&seed=5",
        "use_ssl": False,
        "language_code": "en-US",
        "voice": "English-US.Female-1",
        "sample_rate_hz": 24_000,
        "encoding": "LINEAR_PCM",
    }
    return Namespace(**defaults | options)


def synthesized(server: RunningServer, parts: list[str | None], **options: Any) -> bytes:
    """Return what the client receives for a text in parts; ``None`` is a commit."""

    async def texts() -> AsyncIterator[str | None]:
        for part in parts:
            yield part

    async def talk() -> bytes:
        client = RealtimeClientTTS(arguments(server, **options))
        await client.connect()
        chunks: list[bytes] = []
        await asyncio.gather(client.send_text(texts()), client.receive_audio(chunks))
        await client.disconnect()
        assert not client.error_occurred
        return b"".join(chunks)

    return asyncio.run(asyncio.wait_for(talk(), PATIENCE))


@pytest.mark.slow
def test_the_client_gets_the_samples_of_the_library(server: RunningServer, spoken: bytes) -> None:
    assert synthesized(server, [TEXT]) == spoken
    parts: list[str | None] = [TEXT[at : at + 7] for at in range(0, len(TEXT), 7)]
    assert synthesized(server, parts) == spoken
    assert server.becomes_idle()


@pytest.mark.slow
def test_it_gets_other_formats_and_a_silence(server: RunningServer) -> None:
    flac = synthesized(server, ["Hello."], encoding="FLAC", sample_rate_hz=16_000)
    sound, rate = decoded(flac)
    assert rate == 16_000
    assert np.abs(sound).max() > 1000
    assert synthesized(server, ["**", None]) == bytes(9600)


def test_it_lists_the_voices(server: RunningServer) -> None:
    voices = RealtimeClientTTS(arguments(server)).list_voices()
    assert voices == {code: {"voices": list(NAMES)} for code in ("en-US", "zh-CN")}


def test_a_voice_that_does_not_exist_is_an_error_of_the_client(server: RunningServer) -> None:
    with pytest.raises(Exception, match="Failed to update session"):
        synthesized(server, [TEXT], voice="nobody")


# ------------------------------------------------------------------ the messages


def opened(server: RunningServer, **settings: object) -> Connection:
    query = "&".join(["intent=synthesis", *(f"{name}={value}" for name, value in settings.items())])
    socket = connect(f"ws://{server.address}/v1/realtime?{query}")
    assert heard(socket)["type"] == "conversation.created"
    return socket


def heard(socket: Connection) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(socket.recv(PATIENCE))
    return message


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("no JSON", None),
        ("[]", None),
        (b"bytes", None),
        ({"type": "x"}, "type"),
        ({"type": "input_text.append", "text": 4}, "text"),
        ({"type": "synthesize_session.update"}, "session"),
        ({"output_audio_params": {"audio_format": "gif"}}, "audio_format"),
        ({"output_audio_params": {"sample_rate_hz": 7}}, "sample_rate_hz"),
        ({"output_audio_params": []}, None),
        ({"input_text_synthesis": {"voice_name": 4}}, "voice_name"),
        ({"input_text_synthesis": {"language_code": "fr-FR"}}, "language_code"),
        ({"custom_configuration": {"x": "y"}}, "custom_configuration"),
        ({"custom_configuration": {"speed": "99"}}, "speed"),
        ({"zero_shot_config": {"audio_prompt_bytes": "aaaa"}}, "zero_shot_config"),
    ],
)
def test_what_is_refused_leaves_the_session_open(
    server: RunningServer, message: Any, param: str | None
) -> None:
    if isinstance(message, dict) and "type" not in message:
        message = {"type": "synthesize_session.update", "session": message}
    with opened(server) as socket:
        socket.send(json.dumps(message) if isinstance(message, dict) else message)
        if message == {"type": "synthesize_session.update", "session": {"output_audio_params": []}}:
            assert heard(socket)["type"] == "synthesize_session.updated"
        else:
            answer = heard(socket)
            assert (answer["type"], answer["error"]["param"]) == ("error", param)
        socket.send(json.dumps({"type": "input_text.append", "text": "Hello."}))
        socket.send(json.dumps({"type": "input_text.done"}))
        while (answer := heard(socket))["type"] == "conversation.item.speech.data":
            assert base64.b64decode(answer["audio"])
        assert answer["type"] == "conversation.item.speech.completed"


def test_settings_are_told_as_a_client_writes_them(server: RunningServer) -> None:
    given = {"priority": "batch", "refine": "true", "temperature": "0.5", "guard": "report"}
    with opened(server) as socket:
        for _ in range(2):  # also when a client sends back what it was told
            update = {"custom_configuration": given}
            socket.send(json.dumps({"type": "synthesize_session.update", "session": update}))
            told = heard(socket)["session"]["custom_configuration"]
            assert told == given
            given = told


def test_a_text_after_another_has_the_settings_of_now(server: RunningServer) -> None:
    def said(socket: Connection, voice: str) -> bytes:
        session = {"input_text_synthesis": {"voice_name": voice}}
        socket.send(json.dumps({"type": "synthesize_session.update", "session": session}))
        assert heard(socket)["type"] == "synthesize_session.updated"
        socket.send(json.dumps({"type": "input_text.append", "text": "Hello."}))
        socket.send(json.dumps({"type": "input_text.done"}))
        sound = b""
        while (answer := heard(socket))["type"] == "conversation.item.speech.data":
            sound += base64.b64decode(answer["audio"])
        return sound

    with opened(server, seed=5) as first, opened(server, seed=5) as second:
        one = said(first, "edith")
        two = said(second, "clara")
        assert one != two
        assert said(first, "clara") == two


def test_a_client_that_leaves_frees_everything(server: RunningServer) -> None:
    with opened(server) as socket:
        socket.send(json.dumps({"type": "input_text.append", "text": TEXT * 5}))
        assert heard(socket)["type"] == "conversation.item.speech.data"
    assert server.becomes_idle()


def test_keys_and_secrets(server: RunningServer) -> None:
    own: dict[str, Any] = {"chat": server.chat, "warm": False, "extend": [add_to]}
    with running_server(api_keys=("k",), **own) as keyed:
        with pytest.raises(Exception, match="mint-api-key"):
            synthesized(keyed, ["Hello."], voice="edith")
        assert synthesized(keyed, ["Hello."], voice="edith", mint_api_key="k")
        url = f"ws://{keyed.address}/v1/realtime"
        wrong: Any = ["realtime", "realtime-token.x"]
        for offered in (None, wrong):
            with pytest.raises(InvalidStatus) as refused:
                connect(url, subprotocols=offered)
            assert refused.value.response.status_code == 401
        headers = {"authorization": "Bearer k"}
        path = f"{keyed.url}/v1/realtime/synthesis_sessions"
        secret = httpx.post(path, headers=headers).json()["client_secret"]["value"]
        protocols: Any = ["realtime", f"realtime-token.{secret}"]
        connect(url, subprotocols=protocols).close()
        with pytest.raises(InvalidStatus):  # it opens one socket
            connect(url, subprotocols=protocols)
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://{server.address}/v1/realtime?seed=x")
    assert refused.value.response.status_code == 400


def test_secrets_are_bounded() -> None:
    tokens = Tokens()
    first, _ = tokens.new("a")
    others = [tokens.new("b")[0] for _ in range(1000)]
    assert tokens.take(first) is None
    assert tokens.take(others[0]) == "b"
    assert tokens.take(others[0]) is None
