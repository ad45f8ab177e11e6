"""The server process: its output, its shutdown, and its checks before the model is loaded."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

import ChatTTS.core
from ChatTTS.cli import main
from ChatTTS.errors import ConfigError
from ChatTTS.serving.settings import Settings
from ChatTTS.serving.startup import reserve, warn_if_open

from ..support.process_tools import LONG, Process, Reader
from ..support.server_tools import server_thread, whole_server
from ..support.serving_tools import PATIENCE
from ..support.websocket_tools import speaker

TEXT = "We went home."


def ask(url: str) -> httpx.Response:
    body = {"input": TEXT, "response_format": "pcm"}
    return httpx.post(f"{url}/v1/audio/speech", json=body, timeout=PATIENCE)


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def started(*options: str, **more: str) -> Process:
            process = Process(tmp_path, *options, **more)
            stack.callback(process.close)
            return process

        yield started


@pytest.mark.slow
def test_sigterm_lets_requests_finish(start: Start) -> None:
    process = start("--drain-delay", "0.1", "--shutdown-seconds", "600")
    with Reader(process.url, LONG) as reader:
        process.signal()
        process.said("requests are still accepted for 0.1 s")
        process.said("shutting down")
        assert ask(process.url).json()["error"]["code"] == "shutting_down"
        assert reader.whole()
    process.said("all requests have finished")
    assert process.status() == 0


@pytest.mark.slow
def test_a_request_that_takes_too_long_is_dropped_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with contextlib.ExitStack() as clients, caplog.at_level(logging.WARNING):
        with server_thread(shutdown_seconds=0.2) as thread:
            server = thread.ready()
            voice = clients.enter_context(server.riva_client())
            reader = clients.enter_context(Reader(server.url, LONG * 20))
            answers = voice.synthesize_online(LONG * 20)
            next(answers)
        assert not reader.whole()
        with pytest.raises(grpc.RpcError) as caught:
            list(answers)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "2 requests were dropped" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(start: Start) -> None:
    process = start()
    with Reader(process.url, LONG * 40) as reader:
        process.signal()
        process.said("shutting down")
        process.signal()
        assert process.status() == 130
        assert not reader.whole()


@pytest.mark.slow
def test_a_client_that_comes_while_a_balancer_is_told_is_served() -> None:
    with whole_server() as server:
        server.call(server.service.start_draining)
        assert httpx.get(f"{server.url}/ready").json()["status"] == "draining"
        assert ask(server.url).status_code == 200
        with speaker(server) as client:
            client.say("input.text", text=TEXT)
            client.say("input.done")
            assert client.until("audio.done")["total_bytes"]


def test_a_socket_that_the_end_cuts_is_told_to_come_again() -> None:
    """The code is 1012, for an active and for an idle WebSocket."""
    with contextlib.ExitStack() as sockets:
        with server_thread(shutdown_seconds=0.1) as thread:
            server = thread.ready()
            silent, speaking = (sockets.enter_context(speaker(server)) for _ in range(2))
            silent.say("input.flush")
            silent.until("audio.done")
            speaking.say("input.text", text=LONG * 40)
            speaking.say("input.flush")
            speaking.until("text.spoken")
        assert [client.until_closed() for client in (silent, speaking)] == [1012, 1012]


# ------------------------------------------------------------------ the engine fails

# The engine breaks as soon as a file of this name exists.
BREAK = """
import os
from ChatTTS.model.velocity.executor import InProcessExecutor

def execute(self, plan, real=InProcessExecutor.execute_model):
    if os.path.exists({flag!r}):
        raise RuntimeError("broken on purpose")
    return real(self, plan)

InProcessExecutor.execute_model = execute
"""


@pytest.mark.slow
def test_a_failed_engine_ends_the_process_once_every_client_is_told(
    start: Start, tmp_path: Path
) -> None:
    """Every line of the process's output is JSON, lines of libraries included."""
    flag = tmp_path / "broken"
    process = start("--log-format", "json", before=BREAK.format(flag=str(flag)))
    host, _, port = process.url.removeprefix("http://").partition(":")
    assert httpx.get(f"{process.url}/nowhere").status_code == 404
    with socket.create_connection((host, int(port)), PATIENCE) as client:
        client.sendall(b"what is this\r\n\r\n")
        assert b"400" in client.recv(1 << 10)
    with (
        process.riva_client() as voice,
        Reader(process.url, LONG * 40) as reader,
        speaker(process) as talk,
    ):
        answers = voice.synthesize_online(LONG * 40)
        next(answers)
        talk.say("input.text", text=LONG * 40)
        talk.until("text.spoken")
        flag.touch()
        assert not reader.whole()
        with pytest.raises(grpc.RpcError) as caught:
            list(answers)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert talk.until("error")["error"]["code"] == "engine_unavailable"
        assert talk.until_closed() == 1012
    assert process.status() == 70
    lines = [json.loads(line) for line in process.words().splitlines()]
    assert any("broken on purpose" in str(line) for line in lines)
    assert [line["address"] for line in lines if line.get("status") == 404] == ["GET /nowhere"]
    assert "uvicorn.error" in {line["logger"] for line in lines}


# ------------------------------------------------------------------ before the model loads


@pytest.fixture
def loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_: Any) -> None:
        raise AssertionError("the model is loaded too early")

    monkeypatch.setattr(ChatTTS.core, "Chat", loaded)
    monkeypatch.delenv("CHATTTS_API_KEYS", raising=False)


@pytest.mark.usefixtures("loads_nothing", "empty_home")
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("wrong", ["port", "grpc-port", "voices", "tls", "keys"])
def test_impossible_settings_are_reported_before_the_model_loads(
    wrong: str, form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    no_folder = tmp_path / "file"
    no_folder.write_text("no folder")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options, words = {
            "port": (["--port", port], f"127.0.0.1:{port}"),
            "grpc-port": (["--port", "0", "--grpc-port", port], "--grpc-port"),
            "voices": (["--port", "0", "--voices", str(no_folder)], str(no_folder)),
            "tls": (["--tls-cert", str(no_folder), "--tls-key", "x.pem"], "x.pem"),
            "keys": (["--require-keys"], "--api-keys"),
        }[wrong]
        assert main(["serve", "--log-format", form, "--model", "bundled", *options]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    if form == "json":
        line = json.loads(line)["message"]
    assert words in line


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="--voices"):
        reserve(Settings(port=0, grpc_port=None, voices=tmp_path / "voices"))


@pytest.mark.parametrize(
    ("settings", "is_warned"),
    [
        ({"host": "0.0.0.0"}, True),
        ({"host": "::"}, True),
        ({"host": "192.0.2.1"}, True),
        ({"host": "0.0.0.0", "api_keys": ("key",)}, False),
        ({"host": "0.0.0.0", "needs_keys": False}, False),
        ({"host": "127.0.0.1"}, False),
        ({"host": "localhost"}, False),
    ],
)
def test_a_server_without_keys_on_a_network_is_reported(
    settings: dict[str, Any], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_if_open(Settings(**settings))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * is_warned
    assert ("NO API KEYS" in caplog.text) is is_warned
