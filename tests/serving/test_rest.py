"""Speech over HTTP: samples equal those of ``infer``; disconnected clients hold no resources."""

from __future__ import annotations

import base64
import io
import json
import socket
import struct
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from typing import Any

import av
import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.audio import to_int16
from ChatTTS.config.request_fields import Priority
from ChatTTS.errors import GenerationError
from ChatTTS.pipeline.results import Piece
from ChatTTS.serving.errors import EngineFailedError
from ChatTTS.serving.http import responses as answers
from ChatTTS.serving.http.responses import EncodedPiece
from ChatTTS.serving.queue.tickets import Ticket
from ChatTTS.serving.requests.jobs import PieceStream
from ChatTTS.serving.requests.request import SpeechRequest

from ..support.bundled_voice import UNKNOWN
from ..support.serving_tools import RunningServer, eventually, running_server

TEXT = "Hello there."
LONG = "The lighthouse had been dark for eleven years. Then somebody lit the lamp. " * 40
WORDS = "Hello there, my dear old friend. How are you? We went home."
SEED = 7


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


@pytest.fixture(scope="module")
def offline(server: RunningServer) -> NDArray[np.int16]:
    """The samples that every format must contain."""
    samples: NDArray[np.int16] = to_int16(server.offline(TEXT, SEED))
    return samples


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"model": "tts-1", "input": TEXT, "seed": SEED, **fields}
    return client.post("/v1/audio/speech", json=body)


def from_pcm(data: bytes) -> NDArray[np.int16]:
    return np.frombuffer(data, dtype="<i2")


def decode(data: bytes) -> tuple[NDArray[np.float64], int]:
    """Return mono samples and their rate."""
    with av.open(io.BytesIO(data)) as container:
        rate = container.streams.audio[0].rate
        resampler = av.AudioResampler(format="s16", layout="mono", rate=rate)
        frames = [f for frame in container.decode(audio=0) for f in resampler.resample(frame)]
    return np.concatenate([f.to_ndarray()[0] for f in frames]).astype(np.float64), rate


def similarity(sound: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Return the correlation at the best shift."""
    size = 1 << (len(sound) + len(reference)).bit_length()
    spectrum = np.fft.rfft(sound, size) * np.conj(np.fft.rfft(reference, size))
    best = float(np.fft.irfft(spectrum, size).max())
    return best / float(np.linalg.norm(sound) * np.linalg.norm(reference))


def nearly_equal(a: NDArray[np.int16], b: NDArray[np.int16]) -> bool:
    return len(a) == len(b) and int(np.abs(a.astype(int) - b).max()) <= 1


# ------------------------------------------------------------------ formats


def test_pcm_is_what_infer_gives(client: httpx.Client, offline: NDArray[np.int16]) -> None:
    answer = ask(client, response_format="pcm", voice="alloy")
    assert answer.status_code == 200
    assert nearly_equal(from_pcm(answer.content), offline)
    assert answer.headers["content-type"] == "audio/pcm"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.headers["x-sample-rate"] == "24000"
    assert answer.headers["x-seed"] == str(SEED)
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["cache-control"] == "no-cache"


def test_a_streamed_wav_does_not_know_its_length(
    client: httpx.Client, server: RunningServer
) -> None:
    data = ask(client, input=WORDS, response_format="wav").content
    assert data[:4] == b"RIFF"
    assert struct.unpack_from("<I", data, 4)[0] == 0xFFFFFFFF
    assert struct.unpack_from("<I", data, 40)[0] == 0xFFFFFFFF
    assert nearly_equal(from_pcm(data[44:]), to_int16(server.offline(WORDS, SEED)))


def test_a_whole_wav_knows_its_length(client: httpx.Client, offline: NDArray[np.int16]) -> None:
    answer = ask(client, response_format="wav", stream=False)
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["x-finish-reason"] == "length"
    assert struct.unpack_from("<I", answer.content, 4)[0] == len(answer.content) - 8
    assert struct.unpack_from("<I", answer.content, 40)[0] == len(answer.content) - 44
    samples, rate = decode(answer.content)
    assert rate == 24_000
    assert nearly_equal(samples.astype(np.int16), offline)


def test_flac_is_exact(client: httpx.Client, offline: NDArray[np.int16]) -> None:
    answer = ask(client, response_format="flac")
    samples, rate = decode(answer.content)
    assert rate == 24_000
    assert nearly_equal(samples.astype(np.int16), offline)


@pytest.mark.parametrize(
    ("name", "kind"), [("mp3", "audio/mpeg"), ("aac", "audio/aac"), ("opus", "audio/ogg")]
)
def test_lossy_formats_sound_alike(
    client: httpx.Client, offline: NDArray[np.int16], name: str, kind: str
) -> None:
    answer = ask(client, response_format=name)
    assert answer.headers["content-type"] == kind
    samples, rate = decode(answer.content)
    reference = offline.astype(np.float64)
    if rate != 24_000:  # Opus decodes at 48 kHz
        assert rate == 48_000
        samples = samples[::2]
    assert abs(len(samples) - len(reference)) < 0.2 * 24_000
    assert similarity(samples, reference) > 0.9


def test_mp3_is_the_default_format(client: httpx.Client) -> None:
    assert ask(client).headers["content-type"] == "audio/mpeg"


def test_sample_rate_and_speed(client: httpx.Client, offline: NDArray[np.int16]) -> None:
    answer = ask(client, response_format="pcm", sample_rate=16_000)
    assert answer.headers["x-sample-rate"] == "16000"
    assert abs(len(answer.content) / 2 - len(offline) * 2 / 3) < 10
    quick = ask(client, response_format="pcm", speed=2.0)
    assert abs(len(quick.content) / 2 / len(offline) - 0.5) < 0.05


def test_voices_differ_and_may_be_objects(
    client: httpx.Client, server: RunningServer, offline: NDArray[np.int16]
) -> None:
    other = ask(client, response_format="pcm", voice={"id": "edith"})
    expected = to_int16(server.offline(TEXT, SEED, "edith"))
    assert nearly_equal(from_pcm(other.content), expected)
    assert not np.array_equal(expected, offline)


def test_a_seed_is_drawn_and_told(client: httpx.Client) -> None:
    first = ask(client, seed=None, response_format="pcm")
    again = ask(client, seed=int(first.headers["x-seed"]), response_format="pcm")
    assert first.content == again.content


def test_a_sample_to_speak_like(client: httpx.Client, server: RunningServer) -> None:
    recording = ask(client, input=WORDS, response_format="wav", stream=False).content
    data = base64.b64encode(recording).decode()
    answer = ask(client, ref_audio=data, ref_text=WORDS, voice="alloy", response_format="pcm")
    assert answer.status_code == 200, answer.text
    samples, _ = decode(recording)
    prompt = server.run(server.service.encode_sample(samples.astype(np.int16), 24_000))
    params = {"spk_smp": prompt, "txt_smp": WORDS, "manual_seed": SEED}
    expected = server.chat.infer(TEXT, skip_refine_text=True, params_infer_code=params)[0]
    assert nearly_equal(from_pcm(answer.content), to_int16(expected))


# ------------------------------------------------------------------ events


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    blocks = answer.text.split("\n\n")
    assert blocks[-1] == ""
    assert all(block.startswith("data: ") for block in blocks[:-1])
    return [json.loads(block[6:]) for block in blocks[:-1]]


def test_events(client: httpx.Client, offline: NDArray[np.int16]) -> None:
    answer = ask(client, response_format="pcm", stream_format="sse")
    assert answer.headers["content-type"].startswith("text/event-stream")
    *deltas, done = events(answer)
    assert {d["type"] for d in deltas} == {"speech.audio.delta"}
    sound = b"".join(base64.b64decode(d["audio"]) for d in deltas)
    assert nearly_equal(from_pcm(sound), offline)
    assert done["type"] == "speech.audio.done"
    usage = done["usage"]
    assert usage["input_tokens"] > 0
    assert usage["output_tokens"] == -(-len(offline) // 512)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


# ------------------------------------------------------------------ failures midway


class _Breaking:
    """A stream that fails after its first piece."""

    def __init__(self, stream: PieceStream) -> None:
        self._stream, self._given = stream, 0
        self.left_out = stream.left_out

    async def __anext__(self) -> Piece:
        if self._given:
            raise GenerationError("the model gave NaN")
        self._given += 1
        return await self._stream.__anext__()

    def close(self) -> None:
        self._stream.close()


@pytest.fixture
def breaking(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    open_stream = server.service.open_stream

    async def broken(*args: Any) -> _Breaking:
        return _Breaking(await open_stream(*args))

    monkeypatch.setattr(server.service, "open_stream", broken)


@pytest.mark.usefixtures("breaking")
def test_an_answer_with_an_error_midway_is_incomplete(
    client: httpx.Client, server: RunningServer
) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        ask(client, response_format="pcm")
    whole = ask(client, response_format="pcm", stream=False)
    assert whole.status_code == 500
    assert whole.json()["error"]["code"] == "engine_failed"
    assert "NaN" not in whole.text
    assert server.becomes_idle()


@pytest.mark.usefixtures("breaking")
def test_an_error_midway_is_an_event(client: httpx.Client) -> None:
    delta, error = events(ask(client, response_format="pcm", stream_format="sse"))
    assert delta["type"] == "speech.audio.delta"
    assert error["type"] == "error"
    assert error["error"]["code"] == "engine_failed"


def test_an_answer_that_the_server_drops_is_incomplete(
    client: httpx.Client, server: RunningServer
) -> None:
    body = {"input": LONG, "response_format": "pcm"}
    with client.stream("POST", "/v1/audio/speech", json=body) as answer:
        parts = answer.iter_raw()
        next(parts)

        def abort_all() -> None:
            for speech in server.service._speaking:
                speech.abort()

        server.call(abort_all)
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in parts:
                pass
    assert server.becomes_idle()


# ------------------------------------------------------------------ clients that disconnect


def connect(server: RunningServer, path: str, body: dict[str, Any]) -> socket.socket:
    """Send a request, and do not read its answer yet."""
    host, port = server.address.split(":")
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(head.encode() + data)
    return connection


def take_all_places(server: RunningServer) -> list[Ticket]:
    """Let other requests take all places."""
    admission = server.service.admission
    return [
        admission.enter(client=str(n), priority=Priority.INTERACTIVE, cost=1, deadline=None)
        for n in range(admission.limits.max_running)
    ]


def test_a_client_that_leaves_while_its_request_runs_frees_everything(
    server: RunningServer,
) -> None:
    with closing(connect(server, "/v1/audio/speech", {"input": LONG})) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        assert server.busy()["blocks"] > 0
    assert server.becomes_idle()


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/dev/captioned_speech"])
def test_an_error_before_the_first_bytes_has_its_status(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async def failing(*_: Any, **__: Any) -> AsyncGenerator[EncodedPiece, None]:
        yield EncodedPiece(b"")  # a compressed format begins with the second piece
        raise EngineFailedError("it broke")

    monkeypatch.setattr(answers, "encode_pieces", failing)
    answer = client.post(path, json={"input": TEXT, "response_format": "mp3"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "engine_failed")


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/audio/speech/batch", "/v1/audio/refine"])
def test_a_client_that_leaves_the_queue_frees_its_place(server: RunningServer, path: str) -> None:
    admission = server.service.admission
    tickets = server.call(lambda: take_all_places(server))
    try:
        fields = {"input": TEXT, "items": [{"input": TEXT}, {"input": TEXT}]}
        with closing(connect(server, path, fields)):
            expected = 2 if path.endswith("batch") else 1
            assert eventually(lambda: admission.waiting == expected)
        assert eventually(lambda: admission.waiting == 0)
    finally:
        for ticket in tickets:
            server.call(ticket.release)
    assert server.becomes_idle()


def test_a_client_that_leaves_a_batch_ends_all_its_items(server: RunningServer) -> None:
    body = {"items": [{"input": LONG}, {"input": LONG}], "stream": True}
    with closing(connect(server, "/v1/audio/speech/batch", body)):
        assert eventually(lambda: server.service.admission.running == 2)
    assert server.becomes_idle()


def test_a_turn_that_comes_too_late(client: httpx.Client, server: RunningServer) -> None:
    tickets = server.call(lambda: take_all_places(server))
    try:
        answer = ask(client, max_wait=0.05)
    finally:
        for ticket in tickets:
            server.call(ticket.release)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] in ("deadline_exceeded", "server_overloaded")
    assert int(answer.headers["retry-after"]) >= 1
    assert ask(client, max_wait=0).status_code == 200


# ------------------------------------------------------------------ batches


def test_a_batch_with_one_bad_item(
    client: httpx.Client, server: RunningServer, offline: NDArray[np.int16]
) -> None:
    items = [
        {"input": TEXT, "custom_id": "good", "seed": SEED},
        {"input": TEXT, "voice": "nobody"},
        {"input": "Good bye.", "response_format": "flac"},
    ]
    body = {"items": items, "response_format": "pcm", "seed": 3}
    answer = client.post("/v1/audio/speech/batch", json=body)
    assert answer.status_code == 200
    good, bad, other = answer.json()["data"]
    assert [good["index"], bad["index"], other["index"]] == [0, 1, 2]
    assert good["custom_id"] == "good"
    assert nearly_equal(from_pcm(base64.b64decode(good["audio"])), offline)
    assert bad["audio"] is None
    assert bad["error"]["code"] == "voice_not_found"
    samples, _ = decode(base64.b64decode(other["audio"]))
    assert other["format"] == "flac"
    assert other["seed"] == 3
    assert nearly_equal(samples.astype(np.int16), to_int16(server.offline("Good bye.", 3)))
    assert server.becomes_idle()


def test_a_batch_has_batch_priority(
    client: httpx.Client, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SpeechRequest] = []
    speak = server.service.speak

    def noted(request: SpeechRequest) -> Any:
        asked.append(request)
        return speak(request)

    monkeypatch.setattr(server.service, "speak", noted)
    client.post("/v1/audio/speech/batch", json={"items": [{"input": TEXT}]})
    assert [request.priority for request in asked] == [Priority.BATCH]


def test_a_batch_line_by_line(client: httpx.Client, offline: NDArray[np.int16]) -> None:
    items = [{"input": TEXT, "seed": SEED}, {"input": " "}]
    body = {"items": items, "response_format": "pcm", "stream": True}
    answer = client.post("/v1/audio/speech/batch", json=body)
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = sorted(
        (json.loads(line) for line in answer.text.splitlines()), key=lambda r: r["index"]
    )
    assert [line["index"] for line in lines] == [0, 1]
    assert nearly_equal(from_pcm(base64.b64decode(lines[0]["audio"])), offline)
    assert lines[1]["error"]["param"] == "input"


# ------------------------------------------------------------------ /tts


@pytest.mark.parametrize(
    "how",
    [
        {"method": "GET", "params": {"text": TEXT, "seed": SEED}},
        {"method": "POST", "params": {"text": TEXT}, "json": {"seed": SEED}},
        {"method": "POST", "data": {"text": TEXT, "seed": str(SEED)}},
        {"method": "POST", "files": {"text": (None, TEXT), "seed": (None, str(SEED))}},
    ],
)
def test_tts(client: httpx.Client, offline: NDArray[np.int16], how: dict[str, Any]) -> None:
    answer = client.request(url="/tts", **how)
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["content-type"] == "audio/wav"
    assert nearly_equal(from_pcm(answer.content[44:]), offline)


def test_tts_says_what_is_wrong(client: httpx.Client) -> None:
    for answer in (client.get("/tts"), client.post("/tts", json={}), client.post("/tts", json=[])):
        assert answer.status_code == 400
        assert "detail" not in answer.json()
    assert client.get("/tts", params={"text": "a", "format": "gif"}).json()["error"]["param"] == (
        "format"
    )


@pytest.mark.parametrize("path", ["/refine", "/v1/audio/refine"])
def test_refine(client: httpx.Client, path: str) -> None:
    fields = {"input": "Hello there. Good bye.", "seed": 5, "oral": 2, "laugh": 0, "break": 6}
    answer = client.post(path, json=fields).json()
    assert answer["seed"] == 5
    assert answer["text"] == "\n".join(answer["utterances"])
    assert "hello" in answer["text"].lower()
    bad = client.post(path, json=fields | {"break": 9})
    assert bad.json()["error"]["param"] == "break"
    wordless = client.post(path, json=fields | {"input": UNKNOWN})
    assert wordless.status_code == 422
    assert "nothing to speak is left" in wordless.json()["error"]["message"]
