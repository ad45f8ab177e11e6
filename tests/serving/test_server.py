"""The whole server: its start, TLS and its shutdown."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import Any

import grpc
import httpx
import pytest
import riva.client
from grpc_health.v1 import health_pb2, health_pb2_grpc
from websockets.asyncio.client import connect

from ChatTTS.core import Chat
from ChatTTS.errors import ChatTTSError
from ChatTTS.serving.protocol_names import PROTOCOLS
from ChatTTS.serving.protocols.websocket import PATH
from ChatTTS.serving.speech.service import SpeechService

from ..support.process_tools import Reader
from ..support.server_tools import WholeServer, server_thread, whole_server
from ..support.serving_tools import PATIENCE, brief_chat, eventually, with_limits
from ..support.tls_tools import make_certificate
from ..support.websocket_tools import refused, speaker

TEXT = "We went home."
LONG = "The lighthouse had been dark for eleven years. Then somebody lit the lamp again. "


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server() as running:
        yield running


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    """A model for servers that do not start, which leave it loaded."""
    chat = brief_chat()
    yield chat
    chat.unload()


def ask(url: str, text: str = TEXT, **how: Any) -> httpx.Response:
    body = {"input": text, "response_format": "pcm", "seed": 3}
    return httpx.post(f"{url}/v1/audio/speech", json=body, timeout=PATIENCE, **how)


def refusal(chat: Chat, **settings: Any) -> str:
    """Return the error of the start of a server with these settings."""
    with server_thread(chat, **settings) as thread, pytest.raises(ChatTTSError) as caught:
        thread.ready()
    return str(caught.value)


# ------------------------------------------------------------------ beginning


def test_all_interfaces_are_there(server: WholeServer) -> None:
    assert httpx.get(f"{server.url}/ready").json()["status"] == "ready"
    assert "<html" in httpx.get(server.url).text
    assert ask(server.url).content
    with speaker(server) as client:
        client.say("input.text", text=TEXT)
        client.say("input.done")
        assert client.until("audio.done")["total_bytes"]
    with server.riva_client() as voice:
        assert voice.synthesize(TEXT).audio
    with server.channel() as channel:
        health = health_pb2_grpc.HealthStub(channel)
        status = health.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE).status
    assert status == health_pb2.HealthCheckResponse.SERVING


def test_it_is_ready_when_it_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on = threading.Event()
    warm_up = SpeechService.warm_up

    async def slow(service: SpeechService) -> None:
        await service.in_thread(lambda: may_go_on.wait(PATIENCE))
        await warm_up(service)

    monkeypatch.setattr(SpeechService, "warm_up", slow)
    with server_thread() as thread:
        assert eventually(lambda: bool(thread.server.port and thread.server.grpc_port))
        url = thread.server.url
        answer = httpx.get(f"{url}/ready")
        assert (answer.status_code, answer.json()["status"]) == (503, "starting")
        assert httpx.get(f"{url}/health").status_code == 200
        may_go_on.set()
        assert thread.ready().url == url
        assert httpx.get(f"{url}/ready").status_code == 200


@pytest.mark.parametrize("name", ["port", "grpc_port"])
def test_a_port_that_is_taken(chat: Chat, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refusal(chat, **{name: port})
    assert f"127.0.0.1:{port}" in message
    assert f"--{name.replace('_', '-')}" in message
    assert "\n" not in message
    chat.infer(TEXT)  # the model is still loaded


@pytest.mark.parametrize(
    ("host", "port"), [("192.0.2.1", 0), ("no such host", 0), ("127.0.0.1", 70_000)]
)
def test_an_address_that_cannot_be(chat: Chat, host: str, port: int) -> None:
    assert re.search(f"{host}:{port} .*--port.*--host", refusal(chat, host=host, port=port))


# ------------------------------------------------------------------ TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files of a self-signed certificate for localhost and of its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.mark.slow
def test_tls(certificate: tuple[Path, Path]) -> None:
    trusted = ssl.create_default_context(cafile=certificate[0])
    with whole_server(tls_certificate=certificate[0], tls_key=certificate[1]) as server:
        assert server.url.startswith("https://")
        assert ask(server.url, verify=trusted).content
        with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
            ask(server.url)
        with pytest.raises(httpx.TransportError):
            ask(server.url.replace("https", "http"))
        address = f"wss://{server.address}{PATH}"
        assert "session.done" in asyncio.run(answer_on_socket(address, trusted))
        auth = riva.client.Auth(ssl_root_cert=certificate[0], uri=server.grpc_address)
        try:
            assert riva.client.SpeechSynthesisService(auth).synthesize(TEXT).audio
        finally:
            auth.channel.close()
        with server.riva_client() as plain, pytest.raises(grpc.RpcError):
            plain.stub.Synthesize(riva.client.proto.riva_tts_pb2.SynthesizeSpeechRequest(), 5)


async def answer_on_socket(address: str, trusted: ssl.SSLContext) -> str:
    # Not the threaded client: Python's TLS loses bytes if two threads use one connection.
    async with connect(address, ssl=trusted, proxy=None, open_timeout=PATIENCE) as client:
        await client.send('{"type": "input.done"}')
        return str(await asyncio.wait_for(client.recv(), PATIENCE))


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["certificate", "key"])
def test_files_for_tls_that_cannot_be_used(
    chat: Chat,
    certificate: tuple[Path, Path],
    tmp_path: Path,
    broken: str,
) -> None:
    gone = tmp_path / "gone.pem"
    files = dict(zip(("tls_certificate", "tls_key"), certificate, strict=True))
    files[f"tls_{broken}"] = gone
    assert str(gone) in refusal(chat, **files)
    gone.write_text("no certificate")
    assert str(gone) in refusal(chat, **files)


# ------------------------------------------------------------------ ending


@pytest.mark.slow
def test_waiting_requests_are_spoken_before_the_server_closes() -> None:
    """Shutdown also waits in the moment between two requests, when the only place is free."""
    lengths: Queue[int] = Queue()
    with whole_server(brief=False, **with_limits(running=1)) as server:
        clients = [
            threading.Thread(target=lambda: lengths.put(len(ask(server.url).content)))
            for _ in range(3)
        ]
        for client in clients:
            client.start()
        assert eventually(lambda: server.service.admission.waiting == 2)
        assert server.run(server.service.close(PATIENCE)) == 0
        for client in clients:
            client.join(PATIENCE)
    counted = Counter(lengths.queue)
    assert list(counted.values()) == [3]
    assert 0 not in counted


@pytest.mark.slow
def test_a_server_that_shuts_down_admits_no_request() -> None:
    with whole_server() as server, Reader(server.url, LONG * 2) as reader:
        server.call(server.service.admission.drain)
        server.service.state = "draining"
        answer = ask(server.url)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
        assert int(answer.headers["retry-after"]) >= 1
        assert refused(server) == (1013, "the server is shutting down")
        with server.riva_client() as voice, pytest.raises(grpc.RpcError) as caught:
            voice.synthesize(TEXT)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert httpx.get(f"{server.url}/ready").json()["status"] == "draining"
        assert httpx.get(f"{server.url}/health").status_code == 200
        assert reader.whole()


@pytest.mark.slow
def test_a_socket_is_told_that_it_is_dropped() -> None:
    with whole_server() as server, speaker(server) as client:
        client.say("input.text", text=LONG * 20)
        client.say("input.done")
        client.until("text.spoken")
        assert server.run(server.service.close(0.1)) >= 1
        error = client.until("error")["error"]
        assert (error["type"], error["code"]) == ("server_error", "shutting_down")
        assert client.until("audio.done")["finish_reason"] == "error"


@pytest.mark.slow
def test_a_folder_of_protocols_is_one_that_is_served() -> None:
    """Those of this server's own interfaces are not chosen by name."""
    assert {"cartesia", "deepgram", "elevenlabs"} <= set(PROTOCOLS)
    assert not {"mcp", "rest", "riva", "websocket", "wyoming"} & set(PROTOCOLS)
    for name in PROTOCOLS:
        assert callable(import_module(f"ChatTTS.serving.protocols.{name}").add_to)
