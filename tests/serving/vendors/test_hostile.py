"""Clients that ask for what they should not, or leave what they began."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from fastapi import WebSocket, WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from ChatTTS.core import Chat
from ChatTTS.serving.live.send_queue import SocketClose
from ChatTTS.serving.live.session import close
from ChatTTS.serving.protocols.riva.realtime import add_to as add_realtime

from ...support.server_tools import WholeServer, whole_server
from ...support.serving_tools import (
    PATIENCE,
    RunningServer,
    eventually,
    running_server,
    with_limits,
)
from ...support.vendor_tools import EXTEND, SEED, TEXT, VOICE, post, talker

RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
MANY = "/v1/text-to-speech/edith/multi-stream-input?output_format=pcm_24000"
# No word has so many letters; it may be a key.
KEY_TEXT = "q" * 150 + ". "
BLEND = "clara:0.7,edith:0.3"
LINES = BLEND.replace(",", ",%0d%0a")


@pytest.fixture(scope="module")
def hasty(chat: Chat) -> Iterator[RunningServer]:
    """A server that soon loses patience, and lets few clients in."""
    limits = with_limits(idle_seconds=0.4, contexts=2, sockets=2)
    with running_server(
        chat=chat, extend=[add_realtime, *EXTEND], warm=False, aliases={"own": BLEND}, **limits
    ) as running:
        yield running


@pytest.fixture(scope="module")
def all_routes() -> Iterator[WholeServer]:
    with whole_server() as running:
        yield running


BROKEN = [
    b"{",
    b'{"text": "\xff"}',
    b'{"text": NaN}',
    b'{"text": "Hello \xed\xa0\x80 there."}',  # an unpaired surrogate, as if it were UTF-8
    '{"text": "Hello \\ud800 there."}'.encode("utf-16"),
]


@pytest.mark.slow
@pytest.mark.parametrize("body", BROKEN)
@pytest.mark.parametrize(
    "path", ["/tts", "/tts/bytes", "/v1/speak", "/v1/text-to-speech/clara", "/v1/audio/scripts"]
)
def test_broken_json_has_one_message(all_routes: WholeServer, path: str, body: bytes) -> None:
    answer = httpx.post(f"{all_routes.url}{path}", content=body, timeout=PATIENCE)
    assert answer.status_code == 400
    assert "the body is not valid JSON" in answer.text


@pytest.mark.slow
@pytest.mark.parametrize("query", ["model=clara:0", "model=clara%2B", "model=nobody", "callback=x"])
def test_a_handshake_with_a_wrong_voice_is_refused(server: RunningServer, query: str) -> None:
    with pytest.raises(InvalidStatus) as refused, talker(server, f"/v1/speak?{query}"):
        pass
    assert refused.value.response.status_code == 400


def test_a_name_with_line_breaks_does_not_break_the_head(server: RunningServer) -> None:
    answer = post(server, f"/v1/speak?model={LINES}&seed=1&encoding=linear16", {"text": "Hello."})
    assert answer.status_code == 200
    assert answer.headers["dg-model-name"] == "clara:0.7,??edith:0.3"


def test_a_long_name_of_a_context_is_not_repeated_in_every_event(server: RunningServer) -> None:
    body = {"transcript": "Hello.", "voice": VOICE, "output_format": RAW, "context_id": "c" * 65}
    answer = post(server, "/tts/sse", body)
    assert (answer.status_code, len(answer.content) < 1000) == (400, True)


@pytest.mark.parametrize("protocol", ["elevenlabs", "cartesia"])
def test_a_context_that_its_client_forgot_gives_its_place_back(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    session = pytest.importorskip(f"ChatTTS.serving.{protocol}.session")
    name = "_inactivity" if protocol == "elevenlabs" else "_CONTEXT_SECONDS"
    monkeypatch.setattr(session, name, (lambda text: 0.1) if protocol == "elevenlabs" else 0.1)
    fields: dict[str, Any] = {"text": "The lamp was lit. ", "flush": True}
    if protocol == "cartesia":
        fields = {"transcript": TEXT, "voice": VOICE, "output_format": RAW, "continue": True}
    path = MANY if protocol == "elevenlabs" else "/tts/websocket"
    with talker(server, path) as client:
        client.say(context_id="a", **fields)
        while True:
            message = client.hear()
            assert isinstance(message, dict)
            assert not message.get("error")
            if message.get("isFinal") or message.get("done"):
                break


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/text-to-speech/edith/stream-input?output_format=pcm_24000", {"text": KEY_TEXT}),
        ("/v1/speak?model=edith", {"type": "Speak", "text": KEY_TEXT}),
        (
            "/tts/websocket",
            {"transcript": KEY_TEXT, "voice": VOICE, "output_format": RAW, "context_id": "a"},
        ),
    ],
)
def test_a_text_with_nothing_to_speak_is_no_error(
    server: RunningServer, path: str, fields: dict[str, Any]
) -> None:
    with talker(server, path) as client:
        client.say(**fields)
        if "transcript" in fields:
            heard = [client.hear()]
        else:
            client.say(text="", type="Close")
            heard = list(client.until_closed())
    for message in heard:
        assert isinstance(message, dict)
        assert "error" not in message
        assert message.get("type") not in ("Warning", "Error", "error")


def test_a_client_that_goes_while_its_socket_is_closed_is_no_failure() -> None:
    class Gone:
        async def close(self, code: int, reason: str) -> None:
            raise WebSocketDisconnect(1006)

    asyncio.run(close(cast(WebSocket, Gone()), SocketClose(1000)))


# ------------------------------------------------------------------ patience


def test_a_text_that_nobody_ends_is_not_waited_for(hasty: RunningServer) -> None:
    url = f"{hasty.url.replace('http', 'ws', 1)}/v1/realtime"
    with connect(url, proxy=None) as client:
        client.send(json.dumps({"type": "input_text.append", "text": "The lamp was"}))
        assert hasty.service._holds == 0
        with contextlib.suppress(ConnectionClosed):
            while True:
                client.recv(PATIENCE)
        assert client.close_code == 4408


def test_sockets_of_all_protocols_count_together(hasty: RunningServer) -> None:
    with (
        talker(hasty, "/v1/speak?model=edith"),
        talker(hasty, "/tts/websocket"),
        talker(hasty, "/v1/realtime") as third,
    ):
        assert not third.until_closed()
        assert third.close_code == 1013


@pytest.mark.slow
def test_an_alias_may_stand_for_a_blend(hasty: RunningServer) -> None:
    body = {"text": "Hello."}
    sounds = [
        post(hasty, f"/v1/speak?model={name}&seed=1&encoding=linear16", body).content
        for name in ("own", BLEND)
    ]
    assert sounds[0] == sounds[1]


# ------------------------------------------------------------------ Wyoming


@pytest.fixture(scope="module")
def house() -> Iterator[WholeServer]:
    limits = with_limits(idle_seconds=0.4)
    with whole_server(wyoming_port=0, grpc_port=None, **limits) as running:
        yield running


def sent(server: WholeServer, *events: dict[str, Any]) -> socket.socket:
    assert server.wyoming_port is not None
    connection = socket.create_connection(("127.0.0.1", server.wyoming_port), PATIENCE)
    for event in events:
        connection.sendall(json.dumps(event).encode() + b"\n")
    return connection


@pytest.mark.slow
def test_a_stream_without_text_is_not_waited_for(house: WholeServer) -> None:
    with sent(house, {"type": "synthesize-start", "data": {}}) as client:
        assert client.recv(100) == b""
    assert house.service._holds == 0


@pytest.mark.slow
def test_texts_wait_for_one_another_and_their_client_may_leave(house: WholeServer) -> None:
    """The reader of events does not wait for speech, so it sees that the client has gone."""
    text = {"type": "synthesize", "data": {"text": TEXT * 20, "context": {"seed": SEED}}}
    with sent(house, text, text) as client:
        assert json.loads(client.makefile("rb").readline())["type"] == "audio-start"

        def waits() -> bool:
            return len(tasks(house)) > 0

        assert eventually(waits)
    assert house.becomes_idle()
    assert eventually(lambda: not tasks(house))


def tasks(server: WholeServer) -> list[str]:
    def found() -> list[str]:
        names = (task.get_name() for task in asyncio.all_tasks())
        return [name for name in names if name.startswith(("wyoming", "utterance", "context"))]

    return server.call(found)


@pytest.mark.slow
def test_the_next_utterance_is_generated_while_one_is_sent(house: WholeServer) -> None:
    """A client that reads nothing holds the first one back; the second one waits behind it."""
    text = "The lamp was lit in the old house by the sea. " * 40
    event = {"type": "synthesize-chunk", "data": {"text": text}}
    with sent(house, {"type": "synthesize-start", "data": {"context": {"seed": 1}}}, event):

        def ahead() -> bool:
            return sum(name.startswith("utterance") for name in tasks(house)) > 1

        assert eventually(ahead)
    assert house.becomes_idle()
