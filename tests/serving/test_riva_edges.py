"""gRPC: refused calls, and the ends of calls."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import grpc
import numpy as np
import pytest
import riva.client
import riva.client.proto.riva_tts_pb2 as tts
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ChatTTS.errors import ConfigError, GenerationError
from ChatTTS.serving.errors import OverloadedError
from ChatTTS.serving.http.auth import Authenticator
from ChatTTS.serving.protocols.riva import serve_grpc
from ChatTTS.serving.protocols.riva.generated import riva_tts_pb2 as ours
from ChatTTS.serving.protocols.riva.request_parsing import merge_settings
from ChatTTS.serving.protocols.riva.servicer import RivaServicer
from ChatTTS.serving.requests.request import SpeechRequest

from ..support.riva_tools import LONG, NATIVE, PCM, SPEECH, TEXT, Client, ask, connected, zero_shot
from ..support.serving_tools import PATIENCE, RunningServer, eventually, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(brief=False) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Client]:
    with connected(server) as one:
        yield one


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"audio_prompt": b"nothing"}, "WAV"),
        ({"audio_prompt": b"RIFF", "transcript": ""}, "needs a transcript"),
        ({"audio_prompt": b"RIFF", "transcript": " \n"}, "needs a transcript"),
        ({"audio_prompt": b"RIFFnothing"}, "cannot be read"),
        ({"audio_prompt": b"ab" * 20_000, "encoding": PCM}, "0 samples a second"),
        ({"audio_prompt": b"ab" * 100, "encoding": PCM, "sample_rate_hz": 8000}, "short"),
        (
            {"audio_prompt": b"ab" * 400_000, "encoding": PCM, "sample_rate_hz": 8000},
            "longer than 30 s",
        ),
        ({"audio_prompt": bytes(80_000), "encoding": PCM, "sample_rate_hz": 8000}, "silent"),
    ],
)
def test_data_that_is_no_recording_is_refused(
    client: Client, fields: dict[str, Any], says: str
) -> None:
    error = client.refused(zero_shot(**fields))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert says in error.details()


# -- refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"text": ""}, "text"),
        ({"text": "..."}, "nothing to speak"),
        ({"text": "<speak><break/></speak>"}, "nothing to speak"),
        ({"text": "word " * 3000}, "15000 characters"),
        ({"language_code": "de-DE"}, "de-DE"),
        ({"voice_name": "English-US.nobody"}, "nobody"),
        ({"voice_name": "../../etc/passwd"}, "there is no voice"),
        ({"encoding": 7}, "OGGOPUS"),
        ({"sample_rate_hz": 7999}, "8000"),
        ({"sample_rate_hz": -1}, "8000"),
        ({"custom_dictionary": "a b"}, "two spaces"),
        ({"custom_configuration": {"seeds": "1"}}, "seeds"),
        ({"custom_configuration": {"seed": "one"}}, "seed"),
        ({"custom_configuration": {"seed": str(2**63)}}, "seed"),
        ({"custom_configuration": {"temperature": "nan"}}, "temperature"),
        ({"custom_configuration": {"speed": "9"}}, "speed"),
        ({"custom_configuration": {"refine": "perhaps"}}, "true or false"),
        ({"custom_configuration": {"priority": "first"}}, "interactive"),
    ],
)
def test_impossible_requests_are_refused_with_the_reason(
    client: Client, fields: dict[str, Any], says: str
) -> None:
    error = client.refused(ask(**fields))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert says in error.details()
    assert dict(error.trailing_metadata())["x-request-id"].startswith("req-")


def test_messages_with_wrong_bits(client: Client) -> None:
    """A damaged message is answered with a status code of the service."""
    generator = np.random.default_rng(0)
    sound = zero_shot("...", audio_prompt=b"RIFF", sample_rate_hz=8000).SerializeToString()
    method = client.channel.unary_unary(f"/{SPEECH}/Synthesize")
    codes = set()
    for _ in range(200):
        data = bytearray(sound)
        for place in generator.integers(0, len(data), 3):
            data[place] = generator.integers(0, 256)
        with pytest.raises(grpc.RpcError) as caught:
            method(bytes(data), timeout=PATIENCE)
        codes.add(caught.value.code())
    assert codes == {grpc.StatusCode.INVALID_ARGUMENT}


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\xff", b"\x0a\x02\xc3\x28", b"\x00\x00"])
@pytest.mark.parametrize("method", ["Synthesize", "GetRivaSynthesisConfig"])
def test_bytes_that_are_no_message(client: Client, data: bytes, method: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.channel.unary_unary(f"/{SPEECH}/{method}")(data, timeout=PATIENCE)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as caught:
        list(client.channel.stream_stream(f"/{SPEECH}/SynthesizeOnline")(iter([data])))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert client.stub.GetRivaSynthesisConfig(tts.RivaSynthesisConfigRequest()).model_config


def test_messages_that_are_too_large(server: RunningServer) -> None:
    with connected(server, message_bytes=5000, upload_bytes=20_000) as client:
        prompt = zero_shot(audio_prompt=bytes(20_001))
        assert client.refused(prompt).code() is grpc.StatusCode.INVALID_ARGUMENT
        text = client.refused(ask("a" * 6000))
        assert text.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "5000" in text.details()
        both = client.refused(zero_shot(audio_prompt=bytes(30_000)))
        assert both.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert client.stub.Synthesize(ask()).audio


def test_keys(server: RunningServer) -> None:
    with connected(server, keys=("secret",)) as client:
        assert client.refused(ask()).code() is grpc.StatusCode.UNAUTHENTICATED
        wrong = (("authorization", "Bearer other"),)
        error = client.refused(ask(), metadata=wrong)
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError):
            client.stub.GetRivaSynthesisConfig(tts.RivaSynthesisConfigRequest())
        right = (("authorization", "Bearer secret"),)
        assert client.stub.Synthesize(ask(), metadata=right).audio
        health = health_pb2_grpc.HealthStub(client.channel)
        assert health.Check(health_pb2.HealthCheckRequest()).status == 1


def test_a_full_server_says_when_to_come_again(client: Client, server: RunningServer) -> None:
    admission = server.service.admission
    limits = admission.limits
    admission.limits = replace(limits, max_running=1, max_waiting=0)
    call = client.stub.SynthesizeOnline(iter([ask(LONG)]))
    try:
        next(call)
        error = client.refused(ask())
    finally:
        admission.limits = limits
        call.cancel()
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert float(dict(error.trailing_metadata())["retry-after"]) > 0
    assert server.becomes_idle()


@pytest.mark.slow
def test_a_call_past_its_deadline_leaves_the_queue(client: Client, server: RunningServer) -> None:
    """The call's deadline also limits its wait in the queue, so no ticket is left behind."""
    admission = server.service.admission
    limits = admission.limits
    admission.limits = replace(limits, max_running=1)
    call = client.stub.SynthesizeOnline(iter([ask(LONG)]))
    try:
        next(call)
        with pytest.raises(grpc.RpcError) as caught:
            client.stub.Synthesize(ask(), timeout=0.2)
        assert eventually(lambda: not admission.waiting)
        assert admission.running == 1
    finally:
        admission.limits = limits
        call.cancel()
    told = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert caught.value.code() in told
    assert server.becomes_idle()


def test_calls_that_need_no_key_take_no_place(server: RunningServer) -> None:
    """A client may keep a health stream open for as long as it likes."""
    over = threading.Event()

    def one_text() -> Iterator[tts.SynthesizeSpeechRequest]:
        yield ask()
        over.wait(PATIENCE)

    right = (("authorization", "Bearer secret"),)
    with connected(server, keys=("secret",), running=1, waiting=1, sockets=1) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        watches = [health.Watch(health_pb2.HealthCheckRequest()) for _ in range(4)]
        calls = [client.stub.SynthesizeOnline(one_text(), metadata=right) for _ in range(3)]
        try:
            assert all(next(call) for call in [*watches, *calls])
            error = client.refused(ask(), metadata=right)
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "3 calls" in error.details()
        finally:
            over.set()
            for watch in watches:
                watch.cancel()
        assert all(list(call) is not None for call in calls)
        assert client.stub.Synthesize(ask(), metadata=right).audio


def test_a_client_that_takes_no_sound_is_cut_off(server: RunningServer) -> None:
    limits = replace(server.settings.limits, idle_seconds=0.05)
    servicer = RivaServicer(
        server.service, Authenticator(()), replace(server.settings, limits=limits)
    )
    context = _Deaf(ask(LONG).SerializeToString())
    with pytest.raises(grpc.RpcError):
        server.run(servicer.synthesize_online(None, context))
    assert context.told is grpc.StatusCode.DEADLINE_EXCEEDED
    assert server.becomes_idle()


class _Deaf:
    """The server's context of a call whose client sends a text and reads nothing."""

    def __init__(self, data: bytes) -> None:
        self.told: grpc.StatusCode | None = None
        self._data = data

    async def read(self) -> bytes:
        return self._data

    async def write(self, data: bytes) -> None:
        await asyncio.Event().wait()

    async def send_initial_metadata(self, metadata: object) -> None:
        pass

    async def abort(self, code: grpc.StatusCode, details: str, trailing: object) -> None:
        self.told = code
        raise grpc.RpcError(details)

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def time_remaining(self) -> None:
        return None


# -- ends ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_deadline_ends_the_work(client: Client, server: RunningServer) -> None:
    call = client.stub.SynthesizeOnline(iter([ask(LONG)]), timeout=0.5)
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert server.becomes_idle()


def test_the_deadline_is_how_long_it_may_wait(
    client: Client, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float | None] = []

    def watched(request: SpeechRequest) -> Any:
        waits.append(request.max_wait)
        raise OverloadedError("full", retry_after=2)

    monkeypatch.setattr(server.service, "speak", watched)
    for timeout in (20.0, None):
        with pytest.raises(grpc.RpcError) as caught:
            client.stub.Synthesize(ask(), timeout=timeout)
        assert dict(caught.value.trailing_metadata())["retry-after"] == "2"
    bounded, unbounded = waits
    assert unbounded is None
    assert bounded is not None
    assert 10 < bounded < 21  # gRPC rounds what it sends


@pytest.mark.slow
@pytest.mark.parametrize("is_stream", [True, False])
def test_a_client_that_leaves_frees_everything(
    client: Client, server: RunningServer, is_stream: bool
) -> None:
    def tasks() -> int:
        return server.call(lambda: len(asyncio.all_tasks()))

    before = tasks()
    if is_stream:
        call = client.stub.SynthesizeOnline(iter([ask(LONG)]))
        next(call)
    else:
        call = client.stub.Synthesize.future(ask(LONG))
        assert eventually(lambda: server.busy().get("blocks", 0) > 0)
    assert server.service.admission.running == 1
    call.cancel()
    assert server.becomes_idle()
    assert eventually(lambda: tasks() <= before)


@pytest.mark.slow
def test_a_request_is_logged_without_its_text(
    client: Client, server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="ChatTTS.serving.requests"):
        client.stub.Synthesize(ask())
        client.refused(ask("..."))
    first, second = (vars(record)["facts"] for record in caplog.records)
    assert (first["interface"], first["finish"]) == ("grpc", "stop")
    assert first["client"] == "127.0.0.1"
    assert second["finish"] == "nothing_to_speak"
    assert "sun" not in caplog.text


@pytest.mark.parametrize("error", [GenerationError("secret words"), KeyError("a bug")])
def test_a_failure_is_logged_without_the_text(
    client: Client,
    server: RunningServer,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr(server.service, "open_stream", broken)
    told = client.refused(ask())
    assert told.code() is grpc.StatusCode.INTERNAL
    assert "a bug" not in told.details()
    assert dict(told.trailing_metadata())["x-request-id"] in caplog.text
    assert type(error).__name__ in caplog.text
    assert "secret" not in caplog.text
    assert server.becomes_idle()


def test_refusals_are_counted_once(client: Client, server: RunningServer) -> None:
    def count(code: str) -> float:
        registry = server.service.metrics.registry
        return registry.get_sample_value("chattts_refused_total", {"code": code}) or 0.0

    before = [count("voice_not_found"), count("invalid_request")]
    client.refused(ask(voice_name="nobody"))
    client.refused(ask("..."))  # the request had its turn, so it counts as failed, not as refused
    assert [count("voice_not_found"), count("invalid_request")] == [before[0] + 1, before[1]]


@pytest.mark.slow
def test_a_graceful_end_lets_calls_finish(server: RunningServer) -> None:
    with connected(server) as client:
        call = client.stub.SynthesizeOnline(iter([ask(f"{TEXT} {TEXT}")]))
        next(call)
        client.end()
        assert list(call)
        assert call.code() is grpc.StatusCode.OK


# -- listening -----------------------------------------------------------------------------


def test_a_port_that_is_taken(server: RunningServer, tmp_path: Path) -> None:
    settings = replace(server.settings, grpc_port=0)
    gate = Authenticator(())
    listening = server.run(serve_grpc(server.service, gate, settings))
    try:
        with pytest.raises(ConfigError, match="another grpc_port"):
            server.run(
                serve_grpc(server.service, gate, replace(settings, grpc_port=listening.port))
            )
    finally:
        server.run(listening.stop(0))
    with pytest.raises(ConfigError, match="grpc_port is None"):
        server.run(serve_grpc(server.service, gate, replace(settings, grpc_port=None)))
    missing = tmp_path / "missing.pem"
    tls = replace(settings, tls_certificate=missing, tls_key=missing)
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        server.run(serve_grpc(server.service, gate, tls))


def test_another_voice_replaces_a_recording() -> None:
    data = ours.ZeroShotData(audio_prompt=b"first", transcript="its words")
    first = ours.SynthesizeSpeechRequest(text="one", language_code="en-US", zero_shot_data=data)
    named = merge_settings(first, ours.SynthesizeSpeechRequest(text="two", voice_name="clara"))
    assert (named.text, named.language_code, named.voice_name) == ("two", "en-US", "clara")
    assert not named.HasField("zero_shot_data")
    other = ours.SynthesizeSpeechRequest(zero_shot_data=ours.ZeroShotData(audio_prompt=b"other"))
    assert merge_settings(first, other).zero_shot_data == other.zero_shot_data
    assert merge_settings(first, ours.SynthesizeSpeechRequest(text="two")).zero_shot_data == data
    assert first.text == "one"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_tls(server: RunningServer, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    name = "subjectAltName=DNS:localhost"
    subprocess.run(
        [*command.split(), "-addext", name, "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    settings = replace(server.settings, grpc_port=0, tls_certificate=certificate, tls_key=key)
    listening = server.run(serve_grpc(server.service, Authenticator(()), settings))
    auth = riva.client.Auth(ssl_root_cert=certificate, uri=f"localhost:{listening.port}")
    try:
        assert riva.client.SpeechSynthesisService(auth).synthesize(TEXT, **NATIVE).audio
    finally:
        auth.channel.close()
        server.run(listening.stop(0))


@pytest.mark.parametrize("is_told_by", ["metadata", "write"])
def test_a_client_that_leaves_is_no_error(
    server: RunningServer, caplog: pytest.LogCaptureFixture, is_told_by: str
) -> None:
    """gRPC tells of it by an error of its own when something is sent, or by cancelling the call."""

    class Gone:
        def __init__(self) -> None:
            self.messages: list[bytes] = [ask().SerializeToString(), b""]

        def invocation_metadata(self) -> tuple[()]:
            return ()

        def peer(self) -> str:
            return "ipv4:127.0.0.1:5"

        def time_remaining(self) -> None:
            return None

        async def read(self) -> bytes:
            return self.messages.pop(0)

        async def send_initial_metadata(self, metadata: Any) -> None:
            if is_told_by == "metadata":
                raise grpc.aio.InternalError("the call is over")

        async def write(self, data: bytes) -> None:
            raise grpc.RpcError("the stream is closed")

        async def abort(self, *told: Any) -> None:
            raise AssertionError(f"a client that has gone is told {told}")

    async def called() -> None:
        servicer = RivaServicer(server.service, Authenticator(()), server.settings)
        with pytest.raises(asyncio.CancelledError):
            await servicer.synthesize_online(None, cast(Any, Gone()))

    server.run(called())
    assert server.becomes_idle()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
