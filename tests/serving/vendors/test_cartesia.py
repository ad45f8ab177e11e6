"""Cartesia's API, by plain clients that speak as its SDK, Pipecat and LiveKit do."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from websockets.exceptions import InvalidStatus

from ChatTTS.pipeline.results import Word
from ChatTTS.serving.errors import EngineFailedError
from ChatTTS.serving.http import responses as answers
from ChatTTS.serving.http.responses import EncodedPiece
from ChatTTS.serving.protocols.cartesia.words import MarkedWords

from ...support.serving_tools import PATIENCE, RunningServer
from ...support.vendor_tools import (
    KEY,
    SEED,
    TEXT,
    VOICE,
    Talker,
    get,
    max_difference,
    pcm,
    post,
    talker,
)
from ...support.websocket_tools import LONG, is_over

RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
BODY: dict[str, Any] = {
    "model_id": "sonic-3",
    "transcript": TEXT,
    "voice": {"mode": "id", "id": VOICE},
    "output_format": RAW,
    "seed": SEED,
}
SOCKET = "/tts/websocket"


def message(
    text: str, context: str = "a", *, continues: bool = False, **fields: Any
) -> dict[str, Any]:
    return {**BODY, "transcript": text, "context_id": context, "continue": continues, **fields}


def hear_until(client: Talker, kind: str, context: str = "a") -> list[dict[str, Any]]:
    """Return the messages of a context up to one of this type."""
    heard: list[dict[str, Any]] = []
    while not heard or heard[-1]["type"] != kind:
        told = client.hear()
        assert isinstance(told, dict)
        assert told["type"] != "error" or kind == "error", told
        if told["context_id"] == context:
            heard.append(told)
    return heard


def sound(heard: list[dict[str, Any]]) -> bytes:
    chunks = (base64.b64decode(m["data"]) for m in heard if m["type"] == "chunk")
    return b"".join(chunks)


def words(heard: list[dict[str, Any]]) -> list[str]:
    told = [m["word_timestamps"] for m in heard if m["type"] == "timestamps"]
    return [word for stamps in told for word in stamps["words"]]


# -- HTTP ----------------------------------------------------------------------------------


def test_bytes(server: RunningServer, whole: NDArray[np.int16]) -> None:
    assert max_difference(post(server, "/tts/bytes", BODY).content, whole) <= 1
    floats = post(server, "/tts/bytes", {**BODY, "output_format": {**RAW, "encoding": "pcm_f32le"}})
    samples = np.frombuffer(floats.content, "<f4")
    assert len(samples) == len(whole)
    assert np.abs(samples - whole / 32_768).max() < 1e-4


def test_containers(server: RunningServer, whole: NDArray[np.int16]) -> None:
    wav = {"container": "wav", "encoding": "pcm_s16le", "sample_rate": 24_000}
    data = post(server, "/tts/bytes", {**BODY, "voice": VOICE, "output_format": wav}).content
    assert len(soundfile.read(io.BytesIO(data))[0]) == len(whole)
    mp3 = {"container": "mp3", "sample_rate": 44_100, "bit_rate": 64_000}
    answer = post(server, "/tts/bytes", {**BODY, "output_format": mp3})
    assert answer.headers["content-type"] == "audio/mpeg"


def test_events(server: RunningServer, whole: NDArray[np.int16]) -> None:
    body = {**BODY, "add_timestamps": True, "context_id": "mine"}
    answer = post(server, "/tts/sse", body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = []
    for block in answer.text.strip().split("\n\n"):
        kind, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        events.append(event)
    assert {event["context_id"] for event in events} == {"mine"}
    assert max_difference(sound(events), whole) <= 1
    assert words(events) == TEXT.split()
    assert (events[-1]["type"], events[-1]["done"]) == ("done", True)


def test_a_failure_after_the_first_sound(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: Any, **__: Any) -> AsyncGenerator[EncodedPiece, None]:
        yield EncodedPiece(b"\0\0")
        raise EngineFailedError("it broke")

    monkeypatch.setattr(answers, "encode_pieces", failing)
    last = post(server, "/tts/sse", BODY).text.strip().split("\n\n")[-1]
    kind, data = last.split("\n")
    error = json.loads(data.removeprefix("data: "))
    assert (kind, error["error_code"]) == ("event: error", "engine_failed")
    assert (error["message"], error["done"]) == ("it broke", True)
    with pytest.raises(httpx.RemoteProtocolError):  # cut, so that a part is not taken for the whole
        post(server, "/tts/bytes", BODY)


def test_tempo(server: RunningServer, whole: NDArray[np.int16]) -> None:
    for fields in ({"generation_config": {"speed": 1.2}}, {"speed": "fast"}):
        data = post(server, "/tts/bytes", {**BODY, **fields}).content
        assert abs(len(pcm(data)) - len(whole) / 1.2) < 2400


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"voice": "nobody"}, 400, "voice_not_found"),
        ({"voice": {"mode": "embedding", "embedding": [1.0]}}, 400, "invalid_request"),
        ({"transcript": ""}, 400, "invalid_request"),
        ({"output_format": {**RAW, "encoding": "pcm_s24le"}}, 400, "invalid_request"),
        ({"output_format": {**RAW, "container": "wav", "encoding": "x"}}, 400, "invalid_request"),
        ({"output_format": {**RAW, "container": "midi"}}, 400, "invalid_request"),
        ({"output_format": {**RAW, "sample_rate": 5}}, 400, "invalid_request"),
        ({"transcript": "a" * 10_001}, 413, "request_too_large"),
    ],
)
def test_errors(server: RunningServer, fields: dict[str, Any], status: int, code: str) -> None:
    answer = post(server, "/tts/bytes", {**BODY, **fields})
    told = answer.json()
    assert (answer.status_code, told["error_code"]) == (status, code)
    assert told["status_code"] == status
    assert told["title"]
    assert told["message"]


def test_voices(server: RunningServer) -> None:
    first = get(server, "/voices?limit=2").json()
    assert (len(first["data"]), first["has_more"]) == (2, True)
    last = first["data"][-1]["id"]
    second = get(server, f"/voices?limit=2&starting_after={last}").json()["data"]
    assert not {voice["id"] for voice in second} & {voice["id"] for voice in first["data"]}
    back = get(server, f"/voices?limit=2&ending_before={second[0]['id']}").json()
    assert back["data"] == first["data"]
    found = get(server, f"/voices?q={VOICE}").json()["data"]
    assert found == [get(server, f"/voices/{VOICE}").json()]
    assert get(server, "/voices/nobody").status_code == 404


def test_keys(keyed: RunningServer) -> None:
    def status(**headers: str) -> int:
        return get(keyed, "/voices", **headers).status_code

    assert status(x_api_key=KEY) == status(authorization=f"Bearer {KEY}") == 200
    assert status(x_api_key="wrong") == status() == 401
    with pytest.raises(InvalidStatus) as caught, talker(keyed, SOCKET):
        pass
    assert caught.value.response.status_code == 401
    with talker(keyed, f"{SOCKET}?api_key={KEY}") as client:
        client.say(**message("Yes."))
        assert sound(hear_until(client, "done"))


def test_other_addresses_stay_those_of_the_server(server: RunningServer) -> None:
    answer = httpx.get(f"{server.url}/tts", params={"text": "Yes."}, timeout=PATIENCE)
    assert answer.content[:4] == b"RIFF"


# -- sockets -------------------------------------------------------------------------------


def test_text_in_parts(server: RunningServer, whole: NDArray[np.int16]) -> None:
    with talker(server, SOCKET) as client:
        *first, last = TEXT.split(" ")
        for word in first:
            client.say(**message(f"{word} ", continues=True, add_timestamps=True))
        client.say(**message(last, add_timestamps=True))
        heard = hear_until(client, "done")
    assert max_difference(sound(heard), whole) <= 1
    assert words(heard) == TEXT.split()
    assert [m["done"] for m in heard] == [False] * (len(heard) - 1) + [True]


def test_contexts_and_flushes(server: RunningServer) -> None:
    with talker(server, SOCKET) as client:
        for name in "ab":
            client.say(**message("Yes. ", name, continues=True, flush=True))
            client.say(**message("", name))
        heard: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
        while not all(own and own[-1]["type"] == "done" for own in heard.values()):
            told = client.hear()
            assert isinstance(told, dict)
            heard[told["context_id"]].append(told)
    for own in heard.values():
        assert sound(own)
        (flushed,) = (m for m in own if m["type"] == "flush_done")
        assert (flushed["flush_id"], flushed["done"]) == (1, False)
        assert own.index(flushed) == len(own) - 2


def test_sentences_without_delay_are_spoken_at_once(server: RunningServer) -> None:
    fields: dict[str, Any] = {"max_buffer_delay_ms": 0, "add_timestamps": True}
    with talker(server, SOCKET) as client:
        told = []
        for sentence in ("The lamp was lit. ", "Nobody knew why. "):
            client.say(**message(sentence, continues=True, **fields))
            count = len(sentence.split())
            while count:
                stamps = hear_until(client, "timestamps")[-1]["word_timestamps"]
                told += list(zip(stamps["words"], stamps["start"], strict=True))
                count -= len(stamps["words"])
        client.say(**message(" ", **fields))
        hear_until(client, "done")
    assert [word for word, _ in told] == TEXT.split()
    starts = [start for _, start in told]
    assert starts == sorted(starts)


def test_cancelling_ends_the_speech(server: RunningServer) -> None:
    with talker(server, SOCKET) as client:
        client.say(**message(LONG))
        hear_until(client, "chunk")
        client.say(context_id="a", cancel=True)
        assert server.becomes_idle()
        client.say(context_id="unknown", cancel=True)
        client.say(**message("Yes.", "b"))
        ends = []
        while "b" not in ends:
            told = client.hear()
            assert isinstance(told, dict)
            ends += [told["context_id"]] * told["done"]
        assert ends == ["b"]  # a cancelled context has no end
    assert is_over(server)


def test_an_error_ends_its_context_alone(server: RunningServer) -> None:
    with talker(server, SOCKET) as client:
        for wrong in (
            {"voice": "nobody"},
            {"output_format": {**RAW, "container": "midi"}},
            {"transcript": 5},
        ):
            client.say(**message("Yes.", **wrong))
            (error,) = hear_until(client, "error")
            assert (error["done"], error["status_code"]) == (True, 400)
        client.connection.send("{")
        client.say(transcript="no context")
        hear_until(client, "error", "")
        hear_until(client, "error", "")
        client.say(**message("Yes."))
        assert sound(hear_until(client, "done"))


def test_words_have_their_marks() -> None:
    def word(text: str, first: int) -> Word:
        return Word(text, 1.0, 2.0, 24_000, 48_000, first, first + len(text), 1.0)

    marked = MarkedWords(2.0)
    marked.append('"Yes," she said. Well-')
    marked.append("known?")
    told = marked.timestamps(
        [word("Yes", 1), word("she", 7), word("said", 11), word("Well", 17), word("known", 22)], 3.0
    )
    assert told["words"] == ['"Yes,"', "she", "said.", "Well-", "known?"]
    assert (told["start"][0], told["end"][0]) == (3.5, 4.0)
