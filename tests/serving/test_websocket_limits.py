"""Messages that the speech WebSocket refuses, and its errors."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import cast

import pytest
import uvicorn
from fastapi import FastAPI, WebSocket
from websockets.exceptions import InvalidStatus

from ChatTTS.config.request_fields import Priority
from ChatTTS.core import Chat
from ChatTTS.serving.errors import OverloadedError
from ChatTTS.serving.http import uvicorn_server as http_server
from ChatTTS.serving.http.connections import Connections
from ChatTTS.serving.http.listener import bind
from ChatTTS.serving.live.context import Context
from ChatTTS.serving.live.send_queue import SendQueue
from ChatTTS.serving.live.speech_queue import SpeechQueue
from ChatTTS.serving.protocols.websocket.config import ContextConfig
from ChatTTS.serving.protocols.websocket.sender import ContextSender
from ChatTTS.serving.queue.tickets import Ticket
from ChatTTS.serving.settings import Limits, Settings

from ..support.serving_tools import RunningServer, brief_chat, running_server, with_limits
from ..support.websocket_tools import (
    EXTEND,
    LONG,
    SPOKEN,
    TEXT,
    Speaker,
    is_over,
    refused,
    speaker,
)


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    chat = brief_chat()
    yield chat
    chat.unload()


@pytest.fixture(scope="module")
def server(chat: Chat) -> Iterator[RunningServer]:
    with running_server(chat=chat, extend=EXTEND) as running:
        yield running


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("{", None),
        ("[]", None),
        ('"text"', None),
        ("NaN", None),
        ("[" * 100_000, None),
        ("{}", "type"),
        ('{"type": "nothing"}', "type"),
        ('{"type": ["input.text"]}', "type"),
        ('{"type": "input.text"}', "text"),
        ('{"type": "input.text", "text": 5}', "text"),
        ('{"type": "input.text", "text": "\\ud800"}', "text"),
        ('{"type": "input.text", "text": "a", "more": 1}', "more"),
        ('{"type": "input.flush", "context_id": 5}', "context_id"),
        ('{"type": "input.flush", "context_id": ""}', "context_id"),
        ('{"type": "input.cancel", "played_samples": -1}', "played_samples"),
        ('{"type": "session.config", "seed": "5"}', "seed"),
        ('{"type": "session.config", "seed": true}', "seed"),
        ('{"type": "session.config", "seed": 1e999}', "seed"),
        ('{"type": "session.config", "speed": 9}', "speed"),
        ('{"type": "session.config", "sample_rate": 5}', "sample_rate"),
        ('{"type": "session.config", "response_format": "midi"}', "response_format"),
        ('{"type": "session.config", "audio": "hex"}', "audio"),
        ('{"type": "session.config", "language": "xx"}', "language"),
        ('{"type": "session.config", "priority": "now"}', "priority"),
        ('{"type": "session.config", "flush_after": 0}', "flush_after"),
        ('{"type": "session.config", "voice": "../../x"}', "voice"),
        ('{"type": "session.config", "voice": {"id": 5}}', "voice"),
        ('{"type": "session.config", "colour": 1}', "colour"),
    ],
)
def test_wrong_messages(socket: Speaker, message: str, param: str | None) -> None:
    socket.connection.send(message)
    error = socket.until("error")["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    socket.say("input.flush")
    assert socket.until("audio.done")["total_bytes"] == 0


def test_bytes_are_no_message(socket: Speaker) -> None:
    socket.connection.send(b"\x00\x01")
    assert socket.until("error")["error"]["code"] == "invalid_request"


def test_text_after_done_is_refused(socket: Speaker) -> None:
    socket.say("input.text", "x", text=LONG)
    socket.say("input.done", "x")
    socket.say("input.text", "x", text="more")
    error = socket.until("error", "x")["error"]
    assert error["param"] == "context_id"
    socket.say("input.cancel", "x")


def test_an_utterance_that_cannot_be_spoken_is_told_and_the_others_are_spoken(
    socket: Speaker,
) -> None:
    socket.say("input.text", text="[nothing]\n[nothing]\n")
    socket.say("input.flush")
    assert socket.until("error")["error"]["code"] == "nothing_to_speak"
    assert socket.until("audio.done")["finish_reason"] == "error"
    socket.say("input.text", text="Hello there.")
    socket.say("input.done")
    assert socket.until("audio.done")["finish_reason"] in SPOKEN


def test_keys(chat: Chat) -> None:
    with running_server(chat=chat, extend=EXTEND, api_keys=("sesame",)) as server:
        right = {"Authorization": "Bearer sesame"}
        for options in ({"additional_headers": right}, {"query": "?api_key=sesame"}, {}):
            with speaker(server, **options) as socket:
                if not options:
                    socket.say("session.auth", api_key="sesame")
                socket.say("input.flush")
                assert socket.hear()["type"] == "audio.done"
        wrong = {"Authorization": "Bearer simsalabim"}
        assert refused(server, additional_headers=wrong)[0] == 4401
        assert refused(server, query="?api_key=simsalabim")[0] == 4401
        for first in ('{"type": "session.auth", "api_key": "x"}', '{"type": "input.flush"}', "{"):
            with speaker(server) as socket:
                socket.connection.send(first)
                assert socket.until_closed() == 4401
                assert not socket.messages


def test_pages_of_strangers_may_not_connect(server: RunningServer) -> None:
    with pytest.raises(InvalidStatus) as refusal, speaker(server, origin="http://evil.example"):
        pass
    assert refusal.value.response.status_code == 403
    with speaker(server, origin=f"http://{server.address}") as socket:
        socket.say("input.flush")
        assert socket.hear()["type"] == "audio.done"


def test_limits(chat: Chat) -> None:
    limits = with_limits(
        contexts=2, characters=100, message_bytes=1000, sockets=1, running=1, waiting=1
    )
    with running_server(chat=chat, extend=EXTEND, **limits) as server:
        with speaker(server) as socket:
            assert refused(server)[0] == 1013
            socket.say("input.text", text="a" * 101)
            assert socket.until("error")["error"]["code"] == "request_too_large"
            socket.say("input.text", "b", text="b")
            socket.say("input.text", "c", text="c")
            assert socket.until("error", "c")["error"]["code"] == "rate_limit_exceeded"
            socket.connection.send("x" * 1001)
            assert socket.until_closed() == 1009
        assert is_over(server)


def test_too_many_flushes(socket: Speaker) -> None:
    socket.say("input.text", text=LONG)
    for _ in range(80):
        socket.say("input.flush")
    error = socket.until("error")["error"]
    assert error["code"] == "rate_limit_exceeded"
    socket.say("input.cancel")


def test_too_many_texts_that_end_by_silence(server: RunningServer) -> None:
    """The server keeps each text until the speech before it is sent; this client reads nothing."""

    async def ended() -> None:
        pass

    async def wild() -> None:
        sender = ContextSender(SendQueue(cast(WebSocket, None)), None, lambda: False)
        speech_queue = SpeechQueue(
            server.service, "", sender, lambda run: None, ended, skips_silence=False
        )
        context = Context(server.service, ContextConfig(flush_after=0.001), speech_queue)
        try:
            await context.append(LONG)
            for _ in range(100):
                await asyncio.sleep(0.001)
                await context.append(".")
        finally:
            await context.cancel()

    with pytest.raises(OverloadedError, match="64 flushed texts"):
        server.run(wild())
    assert is_over(server)


def test_overload_is_told_and_the_next_text_may_be_served(chat: Chat) -> None:
    limits = with_limits(running=1, waiting=1)
    with running_server(chat=chat, extend=EXTEND, **limits) as server:
        admission = server.service.admission

        def place() -> Ticket:
            return admission.enter(
                client="another", priority=Priority.INTERACTIVE, cost=1, deadline=None
            )

        # One request speaks and one waits: there is no place for another one.
        places = [server.call(place) for _ in range(2)]
        with speaker(server) as socket:
            socket.say("input.text", text=TEXT)
            socket.say("input.flush")
            error = socket.until("error")["error"]
            assert error["code"] == "server_overloaded"
            assert error["retry_after"] >= 1
            assert socket.until("audio.done")["finish_reason"] == "error"
            assert refusals(server) == 1
            for ticket in places:
                server.call(ticket.release)
            socket.say("input.text", text="Hello there.")
            socket.say("input.done")
            assert socket.until("audio.done")["finish_reason"] in SPOKEN
        assert is_over(server)


def refusals(server: RunningServer) -> float:
    """Return the number of requests refused for overload, from the metrics."""
    labels = {"code": "server_overloaded"}
    registry = server.service.metrics.registry
    return registry.get_sample_value("chattts_refused_total", labels) or 0.0


@pytest.mark.slow
def test_a_refused_prefetch_is_not_counted_as_a_refusal(chat: Chat) -> None:
    with running_server(chat=chat, extend=EXTEND, **with_limits(running=1)) as server:
        # No request may wait: a prefetched utterance is refused, and begun again in its turn.
        admission = server.service.admission
        admission.limits = dataclasses.replace(admission.limits, max_waiting=0)
        with speaker(server) as socket:
            socket.say("input.text", text=TEXT)
            socket.say("input.done")
            assert socket.until("audio.done")["finish_reason"] in SPOKEN
        assert refusals(server) == 0


def test_a_ping_may_wait_behind_sound_that_is_not_read_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that plays while it reads may answer a ping after minutes; it stays connected."""
    configs: list[uvicorn.Config] = []

    class Watched(http_server._Uvicorn):
        def __init__(self, config: uvicorn.Config) -> None:
            configs.append(config)
            super().__init__(config)

    async def serve(settings: Settings) -> None:
        bound = bind(settings.host, settings.port)
        async with http_server.serve_http(FastAPI(), settings, bound, Connections(settings)):
            pass

    monkeypatch.setattr(http_server, "_Uvicorn", Watched)
    asyncio.run(serve(Settings(port=0, limits=Limits(idle_seconds=200.0))))
    assert [config.ws_ping_timeout for config in configs] == [200.0]


@pytest.mark.slow
def test_idle_sockets_are_closed(chat: Chat) -> None:
    limits = with_limits(idle_seconds=0.2)
    with running_server(chat=chat, extend=EXTEND, **limits) as server:
        code, reason = refused(server)
        assert (code, reason) == (4408, "no message arrived for 0.2 s")


def test_session_close_says_all_and_closes(socket: Speaker) -> None:
    socket.say("input.text", "a", text="Hello there")
    socket.say("input.text", "b", text="And there")
    socket.say("session.close")
    socket.say("input.text", "a", text="too late")
    assert socket.until_closed() == 1000
    assert [m["text"] for name in "ab" for m in socket.all("audio.done", name)] == [
        "Hello there",
        "And there",
    ]
    assert all(socket.all("session.done", name) for name in "ab")
    assert len(socket.all("error", "a")) == 1
