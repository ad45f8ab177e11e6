"""Send random messages: the server survives, holds nothing and answers as documented."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import httpx
import pytest
import riva.client.proto.riva_tts_pb2 as tts
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from ..support.server_tools import WholeServer, whole_server
from ..support.serving_tools import PATIENCE, with_limits
from ..support.websocket_tools import speaker

TEXT = "We went home."
CONFORMANCE = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
WITH_RULES = (
    "POST /v1/audio/speech",
    "POST /v1/audio/speech/batch",
    "POST /dev/captioned_speech",
    "POST /v1/audio/refine",
    "POST /refine",
    "GET /tts",
    "POST /tts",
    "GET /v2/synthesize",
    "POST /v1/audio/voices",
    "POST /v1/audio/voices/combine",
    "POST /v1/audio/scripts",
)
# Every request to these paths is valid.
WITHOUT_RULES = (
    "GET /synthesize/{utterance}",
    "DELETE /v1/audio/voices/{name}",
    "GET /v1/models/{model}",
    "GET /v1/audio/voices",
    "GET /v1/audio/scripts",
    "GET /v1/audio/scripts/{id}",
    "DELETE /v1/audio/scripts/{id}",
    "GET /v1/audio/scripts/{id}/audio",
    "GET /v1/audio/scripts/{id}/subtitles",
    "GET /v1/audio/scripts/{id}/events",
    "GET /v1/models",
    "GET /v1/audio/models",
    "GET /v1/audio/tags",
    "GET /v1/test",
    "GET /health",
    "GET /ready",
    "GET /metrics",
    "GET /v1/status",
)
KINDS = (
    "session.auth",
    "session.config",
    "input.text",
    "input.flush",
    "input.cancel",
    "input.done",
    "session.close",
)
FIELDS = (
    "text",
    "context_id",
    "voice",
    "seed",
    "response_format",
    "speed",
    "word_times",
    "guard",
    "lexicon",
    "played_samples",
)
SPEECH = "/nvidia.riva.tts.RivaSpeechSynthesis"
MESSAGE_BYTES, UPLOAD_BYTES = 1 << 14, 1 << 17
# Allowed answers to a wrong message; INTERNAL and UNKNOWN would be faults of the server.
REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
)
NAMES = (
    "../x",
    "..%2fx",
    "..%2Fx",
    "%2e%2e%2fx",
    "..\\x",
    "a/b",
    "/etc/passwd",
    "/x",
    ".",
    "..",
    "...",
    ".hidden",
    "con",
    "NUL",
    ".x.json",
    "x\0y",
    "x%00y",
    "x\ny",
    "a" * 65,
    "a" * 5000,
    "ä/nnä",
    "声\\音",
    "\u202ex",
    "😀",
    " ",
    "",
    "-x",
    "~",
    "$HOME",
    "*",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file that must not change, and the folder of voices beside it."""
    folder = tmp_path_factory.mktemp("home")
    for name in ("x", "con", "x.json"):
        (folder / f"{name}.json").write_text("{}")
    (folder / "voices").mkdir()
    return folder


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[WholeServer]:
    limits = with_limits(
        message_bytes=MESSAGE_BYTES,
        upload_bytes=UPLOAD_BYTES,
        voices=20,
        characters=2000,
        batch_items=3,
    )
    with whole_server(voices=home / "voices", **limits) as running:
        yield running
        with speaker(running) as client:
            client.say("input.text", text=TEXT)
            client.say("input.done")
            assert client.until("audio.done")["total_bytes"]
        with running.riva_client() as voice:
            assert voice.synthesize(TEXT).audio


@pytest.fixture(autouse=True)
def _lives(server: WholeServer) -> Iterator[None]:
    """Check after each test that the server holds nothing and speaks.

    After all of them it speaks over every interface.
    """
    yield
    assert server.becomes_idle(), server.busy()
    assert httpx.get(f"{server.url}/ready").status_code == 200
    answer = httpx.post(f"{server.url}/v1/audio/speech", json={"input": TEXT}, timeout=PATIENCE)
    assert answer.content


# ------------------------------------------------------------------ REST


@pytest.fixture(scope="module")
def operations(server: WholeServer) -> dict[str, Any]:
    """Return the operations by method and path."""
    described: Any = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    return {result.ok().label: result.ok() for result in described.get_all_operations()}


def fuzz(operation: Any, mode: Any, count: int) -> None:
    """Send requests that follow the OpenAPI schema, and others."""

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def answered(case: Any) -> None:
        answer = case.call(timeout=PATIENCE)
        if answer.status_code == 500:  # a documented error: the model may give no speech
            assert answer.json()["error"]["code"] == "engine_failed", answer.text
        else:
            assert answer.status_code < 500 or answer.status_code == 503, answer.text
        case.validate_response(answer, checks=CONFORMANCE)

    answered()


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("label", [*WITH_RULES, *WITHOUT_RULES])
def test_rest_answers_as_described(operations: dict[str, Any], label: str, count: int) -> None:
    assert set(operations) == {*WITH_RULES, *WITHOUT_RULES}
    fuzz(operations[label], GenerationMode.POSITIVE, count)
    if label in WITH_RULES:
        fuzz(operations[label], GenerationMode.NEGATIVE, count)


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /tts HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/audio/voices HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_data_that_is_no_http_is_refused(server: WholeServer, head: bytes) -> None:
    host, _, port = server.address.partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        connection.sendall(head)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(1 << 16)
    assert answer[:10] in (b"", b"HTTP/1.1 4"), answer


# ------------------------------------------------------------------ WebSocket


def damaged(draw: random.Random, data: bytes) -> bytes:
    """Return data with some bytes changed, removed, inserted, or cut off."""
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 6)):
        position = draw.randrange(len(changed) + 1)
        chance = draw.randrange(4)
        if chance == 0 and position < len(changed):
            changed[position] = draw.randrange(256)
        elif chance == 1:
            changed[position:position] = draw.randbytes(draw.randrange(8))
        elif chance == 2:
            del changed[position : position + draw.randrange(4)]
        elif draw.random() < 0.3:
            del changed[position:]
    return bytes(changed)


def any_message(draw: random.Random) -> bytes:
    """Draw a message that is well-formed, wrong or damaged."""
    values: list[Any] = [
        "",
        TEXT,
        None,
        -1,
        1e308,
        True,
        [],
        {},
        "\ud800",
        "\0",
        "x" * 70,
        2**70,
        "pcm",
    ]
    fields = {
        "type": draw.choice([*KINDS, *KINDS, "", None, 3]),
        **{name: draw.choice(values) for name in draw.sample(FIELDS, draw.randrange(3))},
    }
    if fields["type"] == "input.text" and draw.random() < 0.7:
        fields["text"] = draw.choice([TEXT, " and so on", "。", "a" * 500, "[laugh]" * 20])
    text = json.dumps(fields).encode()
    chance = draw.random()
    if chance < 0.15:
        return damaged(draw, text)
    if chance < 0.2:
        return b"[" * 5000
    return text


def any_frame(draw: random.Random) -> bytes:
    """Draw data to send, mostly one message."""
    chance = draw.random()
    if chance < 0.9:
        return Frame(Opcode.TEXT, any_message(draw)).serialize(mask=True)
    if chance < 0.93:
        return Frame(Opcode.BINARY, draw.randbytes(50)).serialize(mask=True)
    if chance < 0.95:
        return Frame(Opcode.TEXT, b"x" * (MESSAGE_BYTES + 1)).serialize(mask=True)
    if chance < 0.97:
        return Frame(Opcode.PING, b"hello").serialize(mask=True)
    return draw.randbytes(draw.randrange(1, 30))


@pytest.mark.parametrize(
    "seeds",
    [
        range(12),
        pytest.param(range(12, 60), marks=pytest.mark.slow),
        pytest.param(range(60, 150), marks=pytest.mark.thorough),
    ],
)
def test_frames_of_all_kinds(server: WholeServer, seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        with speaker(server) as client:
            with contextlib.suppress(OSError, ConnectionClosed):
                for _ in range(draw.randrange(1, 30)):
                    client.connection.socket.sendall(any_frame(draw))
                for _ in range(draw.randrange(4)):
                    client.connection.recv(0.05)
            if draw.random() < 0.5:
                client.connection.socket.close()


def test_messages_that_are_too_large_close_the_socket(server: WholeServer) -> None:
    with speaker(server) as client:
        client.say("input.text", text="a" * MESSAGE_BYTES)
        assert client.until_closed() == 1009


# ------------------------------------------------------------------ gRPC


def ask(**fields: Any) -> bytes:
    message = tts.SynthesizeSpeechRequest(**{"text": TEXT, **fields})
    return bytes(message.SerializeToString())


def any_request(draw: random.Random) -> bytes:
    """Draw a message, a damaged message, or data that is no message."""
    given: dict[str, Any] = {
        "voice_name": draw.choice(["", "edith", "x.edith", "nobody", "../x"]),
        "encoding": draw.choice([0, 1, 2, 3, 4, 20, 99]),
        "sample_rate_hz": draw.choice([0, 16_000, 44_100, -1, 2**31 - 1]),
        "language_code": draw.choice(["", "en-US", "zh-CN", "xx"]),
        "custom_configuration": draw.choice(
            [{}, {"seed": "1"}, {"seed": "x"}, {"speed": "nan"}, {"top_k": "-1"}, {"a": "b"}]
        ),
        "zero_shot_data": draw.choice(
            [None, tts.ZeroShotData(audio_prompt=draw.randbytes(200), transcript="a")]
        ),
    }
    names = draw.sample(sorted(given), draw.randrange(3))
    message = ask(**{name: given[name] for name in names})
    chance = draw.random()
    if chance < 0.5:
        return damaged(draw, message)
    return message if chance < 0.8 else draw.randbytes(draw.randrange(60))


def outcome(call: Any) -> str:
    """Return ``OK`` or the error's code, which must be a documented one."""
    try:
        call()
    except grpc.RpcError as error:
        code, words = error.code(), error.details()
    else:
        return "OK"
    assert code in REFUSALS or "nothing was spoken" in words, (code, words)
    return str(code.name)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 750), marks=pytest.mark.slow)])
def test_bytes_of_all_kinds(server: WholeServer, seeds: range) -> None:
    outcomes = set()
    with server.channel() as channel:
        speak = channel.unary_unary(f"{SPEECH}/Synthesize")
        speak_online = channel.stream_stream(f"{SPEECH}/SynthesizeOnline")
        configuration = channel.unary_unary(f"{SPEECH}/GetRivaSynthesisConfig")
        for seed in seeds:
            draw = random.Random(seed)
            if seed % 3 == 0:
                outcomes.add(outcome(lambda: speak(any_request(draw), PATIENCE)))  # noqa: B023
            elif seed % 3 == 1:
                asked = [any_request(draw) for _ in range(draw.randrange(4))]
                outcomes.add(outcome(lambda: list(speak_online(iter(asked), PATIENCE))))  # noqa: B023
            else:
                data = draw.randbytes(draw.randrange(40))
                outcomes.add(outcome(lambda: configuration(data, PATIENCE)))  # noqa: B023
    assert {"OK", "INVALID_ARGUMENT"} <= outcomes


@pytest.mark.slow
def test_requests_that_are_too_large_or_unknown(server: WholeServer) -> None:
    with server.channel() as channel:
        speak = channel.unary_unary(f"{SPEECH}/Synthesize")
        large = ask(text="a" * (MESSAGE_BYTES + UPLOAD_BYTES))
        assert outcome(lambda: speak(large, PATIENCE)) == "RESOURCE_EXHAUSTED"
        assert outcome(lambda: speak(ask(text="a" * 5000), PATIENCE)) == "INVALID_ARGUMENT"
        other = channel.unary_unary(f"{SPEECH}/Delete")
        assert outcome(lambda: other(ask(), PATIENCE)) == "UNIMPLEMENTED"


# ------------------------------------------------------------------ names of voices


def tree(folder: Path) -> dict[str, bytes]:
    """Return all files and their contents."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def untouched(home: Path) -> Iterator[None]:
    """Check afterwards that no file of the home was created, changed or deleted."""
    before = tree(home)
    assert before
    yield
    assert tree(home) == before


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("names", [NAMES[::5], pytest.param(NAMES, marks=pytest.mark.slow)])
def test_names_of_voices_over_rest(server: WholeServer, names: Sequence[str]) -> None:
    consent = {"consent": "yes", "speaker": server.chat.config.defaults.speakers["edith"]}
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        for name in names:
            kept = client.post("/v1/audio/voices", data=consent | {"name": name})
            assert kept.status_code == 400, (name, kept.text)
            for voice in (name, {"id": name}):
                body = {"input": TEXT, "voice": voice}
                spoken = client.post("/v1/audio/speech", json=body)
                # An empty name means the default.
                assert spoken.status_code == (400 if name else 200), (name, spoken.text)
            gone = client.delete(f"/v1/audio/voices/{quote(name, safe='')}")
            assert gone.status_code in (307, 400, 404, 405), (name, gone.text)


@pytest.mark.slow
@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("method", ["DELETE", "GET"])
def test_addresses_that_leave_the_folder(server: WholeServer, method: str) -> None:
    """The paths are sent unchanged; clients would resolve the dots themselves."""
    host, _, port = server.address.partition(":")
    folders = ("/v1/audio/voices/", "/v1/audio/voices/edith/", "/", "/v1/models/")
    for folder in folders:
        for name in ("../x", "../../x", "..%2fx", "..%5cx", "..;/x", "%2e%2e/x", "//x", "con"):
            with socket.create_connection((host, int(port)), PATIENCE) as connection:
                head = (
                    f"{method} {folder}{name} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                )
                connection.sendall(head.encode())
                status = connection.recv(1 << 16).split()[1]
            assert status in (b"307", b"400", b"404", b"405"), (folder, name)


@pytest.mark.slow
@pytest.mark.usefixtures("untouched")
def test_names_of_voices_over_a_socket(server: WholeServer) -> None:
    with speaker(server) as client:
        for name in filter(None, NAMES):
            client.say("session.config", voice=name)
            error = client.until("error")["error"]
            assert error["type"] == "invalid_request_error", (name, error)


@pytest.mark.slow
@pytest.mark.usefixtures("untouched")
def test_names_of_voices_over_grpc(server: WholeServer) -> None:
    with server.channel() as channel:
        speak = channel.unary_unary(f"{SPEECH}/Synthesize")
        for name in filter(None, NAMES):
            for voice in (name, f"ChatTTS.{name}"):
                request = ask(voice_name=voice)
                assert outcome(lambda: speak(request, PATIENCE)) == "INVALID_ARGUMENT"  # noqa: B023
