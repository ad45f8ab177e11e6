"""Requests as programs for other servers send them: null, names of formats, addresses, lengths."""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Iterator
from typing import Any

import av
import httpx
import numpy as np
import pytest

from ChatTTS.errors import AudioError
from ChatTTS.params import InferCodeParams
from ChatTTS.serving.encoding import Encoder, Format
from ChatTTS.serving.encoding.formats import usual_name

from ..support.server_tools import WholeServer, whole_server
from ..support.speech_requests import SHORT, spoken

EMOJI = "🎉"  # a silence of one piece
LONG = "The lighthouse had been dark for eleven years. Then somebody lit the lamp again."


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(result_cache_bytes=1 << 24) as running:
        yield running


# ------------------------------------------------------------------ null


@pytest.mark.slow
def test_null_is_as_if_absent(client: httpx.Client) -> None:
    plain = spoken(client).content
    names = "speed sample_rate stream_format stream refine low_latency priority strict voice model"
    assert spoken(client, **dict.fromkeys(names.split())).content == plain
    assert spoken(client, response_format=None).headers["content-type"] == "audio/mpeg"
    item = {"input": SHORT, "response_format": None, "speed": None}
    body = {"items": [item], "response_format": "pcm", "seed": 1, "stream": None}
    assert client.post("/v1/audio/speech/batch", json=body).json()["data"][0]["format"] == "pcm"
    for path, fields in (
        ("/tts", {"text": SHORT, "format": None, "speed": None, "stream": None}),
        ("/dev/captioned_speech", {"input": SHORT, "speed": None, "return_timestamps": None}),
        ("/v1/audio/refine", {"input": SHORT, "priority": None}),
        ("/v1/text-to-speech/alloy", {"text": SHORT, "voice_settings": {"speed": None}}),
        ("/tts/bytes", {"transcript": SHORT, "voice": "alloy", "output_format": {
            "container": "RAW", "encoding": None, "sample_rate": None}}),
    ):  # fmt: skip
        answer = client.post(path, json=fields)
        assert answer.status_code == 200, (path, answer.text)
    missing = client.post("/v1/audio/speech", json={"input": None})
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "input")


@pytest.mark.slow
def test_the_description_allows_null(client: httpx.Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    fields = schemas["SpeechBody"]["properties"]
    assert {"type": "null"} in fields["speed"]["anyOf"]
    assert fields["speed"]["default"] == 1.0
    assert "anyOf" not in fields["input"]


def test_a_seed_is_a_voice_as_a_number_too(client: httpx.Client) -> None:
    assert spoken(client, voice=2222).content == spoken(client, voice="2222").content


# ------------------------------------------------------------------ names of formats


@pytest.mark.parametrize(
    ("name", "format"),
    [("MP3", "mp3"), ("ogg", "opus"), ("Opus", "opus"), ("audio/ogg; codecs=opus", "opus"),
     ("WAVE", "wav"), ("audio/mpeg", "mp3"), ("pcm_s16le", "pcm"), ("ULAW", "mulaw"),
     (" flac ", "flac"), ("nothing", "nothing"), (4, 4)],
)  # fmt: skip
def test_formats_have_other_names(name: Any, format: Any) -> None:
    assert usual_name(name) == format


def test_formats_by_other_names_are_sent(client: httpx.Client) -> None:
    assert spoken(client, response_format="OGG").headers["content-type"] == "audio/ogg"
    assert client.get("/tts", params={"text": SHORT, "format": "MP3"}).content[:3] == b"ID3"
    answer = client.post("/v1/text-to-speech/alloy?output_format=PCM_24000", json={"text": SHORT})
    assert answer.headers["content-type"] == "audio/pcm"
    wrong = client.post("/v1/audio/speech", json={"input": SHORT, "response_format": "midi"})
    assert wrong.status_code == 400


# ------------------------------------------------------------------ addresses


def test_slashes_and_health(client: httpx.Client) -> None:
    for path in ("/v1/health", "//v1/health", "/v1//audio/voices", "///tts?text=Hello."):
        assert client.get(f"{client.base_url}{path}").status_code == 200, path
    body = {"input": SHORT}
    assert client.post(f"{client.base_url}//v1/audio/speech", json=body).status_code == 200


@pytest.mark.slow
def test_slashes_do_not_pass_by_the_keys() -> None:
    with whole_server(api_keys=("k",)) as server, httpx.Client() as client:
        for path in ("//v1/audio/voices", "/static//../v1/audio/voices", "//tts?text=a"):
            assert client.get(f"{server.url}{path}").status_code in (401, 404), path
        assert client.get(f"{server.url}/v1/health").status_code == 200


def test_open_voice_os_gets_wav(client: httpx.Client) -> None:
    """As its plugin asks, in both versions."""
    settings = {"lang": "en-us", "voice": "af_heart"}
    second = client.get("/v2/synthesize", params={"utterance": SHORT, **settings})
    first = client.get(f"/synthesize/{SHORT}", params=settings)
    assert first.content == second.content  # a sentence sounds as before
    for answer in (first, second):
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-voice"] == "clara"
        assert sizes(answer.content)[1] == len(answer.content) - 44
    assert client.get("/v2/synthesize").status_code == 400


# ------------------------------------------------------------------ lengths


def sizes(data: bytes) -> tuple[int, int]:
    return struct.unpack_from("<I", data, 4)[0], struct.unpack_from("<I", data, 40)[0]


@pytest.mark.slow
def test_a_streamed_file_has_its_length_if_that_is_known(
    client: httpx.Client, server: WholeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.chat, "InferCodeParams", InferCodeParams)  # what is cut is not kept
    kept = spoken(client, input=LONG, voice="alloy", seed=9).content
    for path, body in (
        ("/v1/audio/speech", {"input": EMOJI, "response_format": "wav"}),
        (
            "/v1/audio/speech",
            {"input": LONG, "response_format": "wav", "voice": "alloy", "seed": 9},
        ),
        ("/v1/text-to-speech/alloy/stream?output_format=wav_24000", {"text": LONG, "seed": 9}),
        ("/v1/speak?encoding=linear16&seed=9&model=alloy", {"text": LONG}),
    ):
        data = client.post(path, json=body).content
        assert body.get("input") == EMOJI or data[44:] == kept
        assert sizes(data) == (len(data) - 8, len(data) - 44), (path, len(data))
        with wave.open(io.BytesIO(data)) as file:
            assert file.getnframes() == (len(data) - 44) // 2
    body = {"input": EMOJI, "response_format": "flac"}
    data = client.post("/v1/audio/speech", json=body).content
    assert int.from_bytes(data[18:26], "big") & (1 << 36) - 1 == 4800  # samples
    data = spoken(client, response_format="wav", input=LONG, seed=None).content
    assert sizes(data) == (0xFFFFFFFF, 0xFFFFFFFF)


def test_a_head_claims_no_length(client: httpx.Client) -> None:
    head = client.head("/tts", params={"text": SHORT})
    assert head.headers["content-type"] == "audio/wav"
    assert "content-length" not in head.headers
    whole = client.get("/tts", params={"text": SHORT})
    assert int(whole.headers["content-length"]) == len(whole.content)
    assert sizes(whole.content) == (len(whole.content) - 8, len(whole.content) - 44)


# ------------------------------------------------------------------ G.711 in WAV


@pytest.mark.parametrize(("format", "tag"), [(Format.MULAW, 7), (Format.ALAW, 6)])
@pytest.mark.parametrize("count", [0, 301, 302])
def test_g711_has_a_header_of_wav(format: Format, tag: int, count: int) -> None:
    plain, wav = Encoder(format, 24_000), Encoder(format, 24_000, in_wav=True)
    sound = np.sin(np.arange(count, dtype=np.float32) / 9)
    bare = plain.push(sound) + plain.finish()
    stream = wav.push(sound[:100]) + wav.push(sound[100:]) + wav.finish()
    file = wav.as_file(stream)
    assert wav.media_type == "audio/wav"
    assert stream[58:] == bare
    assert struct.unpack_from("<HHII", file, 20) == (tag, 1, 24_000, 24_000)
    assert struct.unpack_from("<I", file, 54)[0] == struct.unpack_from("<I", file, 46)[0] == count
    assert struct.unpack_from("<I", file, 4)[0] == len(file) - 8
    assert len(file) % 2 == 0
    assert wav.as_file(file) == file
    with pytest.raises(AudioError, match=r"G\.711"):
        Encoder(Format.MP3, in_wav=True)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["mulaw", "alaw"])
def test_deepgrams_clients_get_g711_in_wav(client: httpx.Client, encoding: str) -> None:
    path = f"/v1/speak?model=alloy&seed=1&encoding={encoding}&sample_rate=8000"
    bare = client.post(path, json={"text": LONG})
    file = client.post(f"{path}&container=wav", json={"text": LONG})
    assert (bare.status_code, file.status_code) == (200, 200), file.text
    assert file.headers["content-type"] == "audio/wav"
    assert file.content[58:] == bare.content
    with av.open(io.BytesIO(file.content)) as opened:
        assert opened.streams.audio[0].codec_context.name == f"pcm_{encoding}"
        frames = [frame.to_ndarray() for frame in opened.decode(audio=0)]
    assert sum(frame.shape[1] for frame in frames) == len(bare.content)
