"""The times of words over REST: in JSON, in events, in batches, and in captioned speech."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest

from ChatTTS.audio import make_cues, to_int16
from ChatTTS.core import Chat
from ChatTTS.errors import GenerationError
from ChatTTS.pipeline.lazy_value import LazyValue
from ChatTTS.pipeline.results import Waveforms, Word
from ChatTTS.serving.encoding import Encoder
from ChatTTS.serving.server import make_service
from ChatTTS.serving.settings import Settings

from ..support.serving_tools import RunningServer, running_server

TEXT = "Dr. Smith paid $5.20. It was very cold last night, and we went home."
WORDS = ["Dr", "Smith", "paid", "$5.20"]
SEED = 7
CAPTIONED = "/dev/captioned_speech"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(brief=False, result_cache_bytes=1 << 22) as running:
        yield running


@pytest.fixture(scope="module")
def offline(server: RunningServer) -> Waveforms:
    """The words and the samples that every answer must have."""
    params = server.service.voices.parameters(None) | {"manual_seed": SEED}
    waveforms: Waveforms = server.chat.infer(
        TEXT, skip_refine_text=True, params_infer_code=params, word_times=True
    )
    assert [word.text for word in waveforms.words[0]][: len(WORDS)] == WORDS
    return waveforms


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"input": TEXT, "seed": SEED, "response_format": "pcm", **fields}
    return client.post("/v1/audio/speech", json={"timestamp_granularities": ["word"], **body})


def caption(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"model": "kokoro", "input": TEXT, "seed": SEED, "response_format": "pcm", **fields}
    return client.post(CAPTIONED, json=body)


def as_json(words: Iterable[Word], speed: float = 1.0) -> list[dict[str, Any]]:
    return [
        {
            "word": word.text,
            "start": round(word.start_sample / 24_000 / speed, 3),
            "end": round(word.end_sample / 24_000 / speed, 3),
            "start_character": word.start_character,
            "end_character": word.end_character,
            "confidence": word.confidence,
        }
        for word in words
    ]


def as_captions(words: Iterable[Word], speed: float = 1.0) -> list[dict[str, Any]]:
    return [
        {"word": word["word"], "start_time": word["start"], "end_time": word["end"]}
        for word in as_json(words, speed)
    ]


def sound(*parts: dict[str, Any]) -> bytes:
    return b"".join(base64.b64decode(part["audio"]) for part in parts)


def is_offline(pcm: bytes, offline: Waveforms) -> bool:
    samples, expected = np.frombuffer(pcm, "<i2"), to_int16(offline[0])
    return len(samples) == len(expected) and int(np.abs(samples.astype(int) - expected).max()) <= 1


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(block.removeprefix("data: ")) for block in answer.text.split("\n\n")[:-1]]


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


# ------------------------------------------------------------------ OpenAI's route


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
def test_an_object_has_the_sound_and_its_words(
    client: httpx.Client, offline: Waveforms, stream: bool
) -> None:
    answer = ask(client, stream=stream)
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["x-seed"] == str(SEED)
    found = answer.json()
    assert is_offline(sound(found), offline)
    assert found["words"] == as_json(offline.words[0])
    assert all(TEXT[w["start_character"] : w["end_character"]] == w["word"] for w in found["words"])
    assert found["duration"] == pytest.approx(len(offline[0]) / 24_000, abs=1e-3)
    assert found["cues"] == [
        {"start": round(cue.start, 3), "end": round(cue.end, 3), "lines": list(cue.lines)}
        for cue in make_cues(offline.words[0], TEXT)
    ]
    others = ("format", "sample_rate", "seed", "finish_reason")
    assert [found[name] for name in others] == ["pcm", 24_000, SEED, "stop"]


@pytest.mark.slow
def test_times_are_those_of_the_sound_at_its_tempo(
    client: httpx.Client, offline: Waveforms
) -> None:
    found = ask(client, speed=2.0, sample_rate=8_000, response_format="wav").json()
    assert found["words"] == as_json(offline.words[0], 2.0)
    with av.open(io.BytesIO(sound(found))) as file:
        seconds = sum(frame.samples for frame in file.decode(audio=0)) / 8_000
    assert found["duration"] == pytest.approx(seconds, abs=2e-3)
    assert found["words"][-1]["end"] <= seconds
    last = found["cues"][-1]
    assert found["words"][-1]["end"] <= last["end"] <= seconds + 1
    assert [" ".join(cue["lines"]) for cue in found["cues"]] == [TEXT[:21], TEXT[22:]]


def test_events_have_words_once_these_are_final(client: httpx.Client, offline: Waveforms) -> None:
    *deltas, done = events(ask(client, stream_format="sse"))
    assert done["type"] == "speech.audio.done"
    assert is_offline(sound(*deltas), offline)
    words = [word for delta in deltas for word in delta["words"]]
    assert words == as_json(offline.words[0])
    assert sum(bool(delta["words"]) for delta in deltas) > 2
    assert done["cues"] == ask(client).json()["cues"]


@pytest.mark.slow
def test_a_request_without_words_is_answered_as_before(
    client: httpx.Client, offline: Waveforms
) -> None:
    empty: list[Any] = [None, []]
    for none in empty:
        deltas = events(ask(client, stream_format="sse", timestamp_granularities=none))
        assert all(not delta.keys() & {"words", "cues"} for delta in deltas)
        assert is_offline(ask(client, timestamp_granularities=none).content, offline)
    assert ask(client).json()["words"] == as_json(offline.words[0])  # not the cached pieces


def test_words_do_not_wait_for_an_encoder_that_holds_the_sound(
    client: httpx.Client, offline: Waveforms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "push", lambda encoder, samples: b"")
    deltas = events(ask(client, stream_format="sse"))[:-1]
    assert {delta["audio"] for delta in deltas} == {""}
    assert [word for delta in deltas for word in delta["words"]] == as_json(offline.words[0])
    [line] = lines(caption(client))  # all words wait for sound, of which there is none
    assert line["audio"] == ""
    assert line["timestamps"] == as_captions(offline.words[0])


@pytest.mark.parametrize("wrong", [["segment"], ["word", "segment"], "word", [1], {"word": 1}])
def test_other_granularities_are_refused(client: httpx.Client, wrong: Any) -> None:
    answer = ask(client, timestamp_granularities=wrong)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"].startswith("timestamp_granularities")
    assert error["code"] == "invalid_request"


@pytest.mark.slow
def test_items_of_a_batch(client: httpx.Client, offline: Waveforms) -> None:
    items = [
        {"input": TEXT, "timestamp_granularities": ["word"]},
        {"input": TEXT},
    ]
    body = {"items": items, "seed": SEED, "response_format": "pcm"}
    timed, plain = client.post("/v1/audio/speech/batch", json=body).json()["data"]
    assert timed["words"] == as_json(offline.words[0])
    assert timed["audio"] == plain["audio"]
    assert plain["words"] is None


# ------------------------------------------------------------------ Kokoro-FastAPI's route


@pytest.mark.slow
def test_captioned_speech_in_lines(client: httpx.Client, offline: Waveforms) -> None:
    answer = caption(client, voice="alloy", lang_code="a")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.headers["content-disposition"] == "attachment; filename=speech.pcm"
    found = lines(answer)
    assert len(found) > 2
    assert all(set(line) == {"audio", "audio_format", "timestamps"} for line in found)
    assert {line["audio_format"] for line in found} == {"audio/pcm"}
    assert all(line["audio"] for line in found)
    assert is_offline(sound(*found), offline)
    assert [word for line in found for word in line["timestamps"]] == as_captions(offline.words[0])


@pytest.mark.parametrize(
    ("name", "kind"), [("mp3", "audio/mpeg"), ("opus", "audio/opus"), ("wav", "audio/wav")]
)
def test_captioned_speech_as_an_object(
    client: httpx.Client, offline: Waveforms, name: str, kind: str
) -> None:
    answer = caption(client, stream=False, response_format=name, speed=1.25)
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["content-type"] == "application/json"
    [found] = lines(answer)
    assert answer.headers["x-finish-reason"] == "stop"
    assert answer.headers["x-sample-rate"] == "24000"
    assert found["audio_format"] == kind
    assert found["timestamps"] == as_captions(offline.words[0], 1.25)
    with av.open(io.BytesIO(sound(found))) as file:
        assert file.duration / 1e6 == pytest.approx(len(offline[0]) / 24_000 / 1.25, abs=0.2)


def test_captioned_speech_without_captions(client: httpx.Client, offline: Waveforms) -> None:
    found = lines(caption(client, return_timestamps=False))
    assert all(line["timestamps"] == [] for line in found)
    assert is_offline(sound(*found), offline)
    [whole] = lines(caption(client, return_timestamps=False, stream=False))
    assert whole["timestamps"] is None


def test_volume(client: httpx.Client, offline: Waveforms) -> None:
    [quiet] = lines(caption(client, stream=False, volume_multiplier=0.5))
    half = np.frombuffer(sound(quiet), "<i2") * 2.0
    assert np.abs(half - to_int16(offline[0])).max() <= 2


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"lang_code": "f"}, 400, "lang_code"),
        ({"voice": "af_nobody"}, 400, "voice"),
        ({"input": " "}, 400, "input"),
        ({"volume_multiplier": -1}, 400, "volume_multiplier"),
    ],
)
def test_captions_that_cannot_be(
    client: httpx.Client, fields: dict[str, Any], status: int, param: str
) -> None:
    answer = caption(client, **fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)


@pytest.mark.slow
@pytest.mark.parametrize("code", ["en-us", "b", "z", "ZH", ""])
def test_languages_of_captions(client: httpx.Client, code: str) -> None:
    assert len(lines(caption(client, input="No.", lang_code=code))) > 0


def test_an_error_midway_leaves_the_lines_unfinished(
    client: httpx.Client, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_stream = server.service.open_stream

    async def broken(*args: Any) -> Any:
        stream = await open_stream(*args)
        take = stream.__anext__
        given: list[Any] = []

        class Breaking:
            close, left_out = staticmethod(stream.close), ()

            async def __anext__(self) -> Any:
                if given:
                    raise GenerationError("the model gave NaN")
                given.append(await take())
                return given[0]

        return Breaking()

    monkeypatch.setattr(server.service, "open_stream", broken)
    with pytest.raises(httpx.RemoteProtocolError):
        caption(client, seed=None)
    whole = caption(client, seed=None, stream=False)
    assert (whole.status_code, whole.json()["error"]["code"]) == (500, "engine_failed")
    assert server.becomes_idle()


# ------------------------------------------------------------------ servers without words


def test_a_server_that_knows_no_words_says_so(
    client: httpx.Client, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/v1/status").json()["word_times"] is True
    monkeypatch.setattr(server.service, "_gives_attention", False)
    assert client.get("/v1/status").json()["word_times"] is False
    for answer in (ask(client), ask(client, stream_format="sse"), caption(client)):
        assert answer.status_code == 400
        assert "word times" in answer.json()["error"]["message"]
    assert caption(client, return_timestamps=False).status_code == 200


def test_words_need_heads_and_their_attention(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gives(chat: Chat) -> bool:
        service = make_service(chat, Settings(voices=tmp_path))
        service.shut_down_threads()
        return service.gives_word_times

    chat = server.chat
    assert server.call(lambda: gives(chat))
    assert chat._model is not None
    defaults = replace(chat.config.defaults, alignment_heads=())
    model = replace(chat._model, config=replace(chat.config, defaults=defaults))
    with monkeypatch.context() as patch:
        patch.setattr(chat, "_model", model)
        assert not server.call(lambda: gives(chat))
        patch.setattr(chat, "_model", replace(model, searched_heads=LazyValue(((0, 0),))))
        assert server.call(lambda: gives(chat))
    monkeypatch.setattr(chat.gpt, "gives_attention", False)
    assert not server.call(lambda: gives(chat))


def test_heads_that_are_found_later_count_from_then_on(
    client: httpx.Client, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = server.chat
    named = chat.alignment_heads
    assert chat._model is not None
    defaults = replace(chat.config.defaults, alignment_heads=())
    model = replace(chat._model, config=replace(chat.config, defaults=defaults))
    monkeypatch.setattr(chat, "_model", replace(model, searched_heads=LazyValue()))
    assert client.get("/v1/status").json()["word_times"] is False
    monkeypatch.setattr(chat, "_model", replace(model, searched_heads=LazyValue(named)))
    assert client.get("/v1/status").json()["word_times"] is True
