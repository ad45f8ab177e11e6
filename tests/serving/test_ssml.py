"""SSML and pauses in requests: voices, tempo, exact silence, words at their places, errors."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from ChatTTS.longform.segments import Segment
from ChatTTS.serving.requests.jobs import SpeechJob
from ChatTTS.serving.requests.segments import SegmentStream

from ..support.script_tools import ToneModel, tone_server
from ..support.server_tools import WholeServer
from ..support.serving_tools import PATIENCE

Serving = tuple[WholeServer, ToneModel]
TALK = """<speak>
One here.<break time="1500ms"/>
<voice name="echo">Two <prosody rate="125%">quickly.</prosody></voice>
<mark name="m"/><p>Three.</p><blink>Four.</blink>
</speak>"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with tone_server(tmp_path_factory.mktemp("ssml")) as (server, model):
        yield server, model


@pytest.fixture
def server(serving: Serving) -> WholeServer:
    serving[1].jobs.clear()
    return serving[0]


@pytest.fixture
def model(serving: Serving, server: WholeServer) -> ToneModel:
    return serving[1]


def ask(server: WholeServer, text: str, path: str = "speech", **fields: Any) -> httpx.Response:
    body = {"input": text, "response_format": "wav", "seed": 3, **fields}
    return httpx.post(f"{server.url}/v1/audio/{path}", json=body, timeout=PATIENCE)


def sound(data: bytes) -> np.ndarray[Any, Any]:
    samples, _ = soundfile.read(io.BytesIO(data), dtype="int16")
    return np.asarray(samples)


def test_a_document_that_is_left_ends_the_segment_that_was_begun_ahead() -> None:
    async def leave(model: ToneModel) -> None:
        segments = [Segment(text, 0, None, 1.0, 0.0) for text in ("One.", "Two.", "Three.")]
        jobs = [SpeechJob(segment.text, {}, {}, 3) for segment in segments]
        stream = SegmentStream(model, jobs, segments, threading.Event())
        await stream.open()
        await stream.__anext__()
        assert (model.said, model.running) == (["One.", "Two."], 2)
        stream.close()
        assert model.running == 0

    asyncio.run(leave(ToneModel()))


def test_a_document_is_spoken_in_its_voices_with_its_pauses(
    server: WholeServer, model: ToneModel
) -> None:
    answer = ask(server, TALK, stream=False, voice="alloy")
    assert answer.status_code == 200, answer.text
    assert model.said == ["One here.", "Two", "quickly.", "Three.", "Four."]
    voices = server.service.voices
    own, other = voices.parameters("alloy"), voices.parameters("echo")
    assert [job.voice for job in model.jobs] == [own, other, other, own, own]
    # The draws of a document are those of one long text.
    assert [job.first_utterance for job in model.jobs] == [0, 1, 2, 3, 4]
    tones = [model.tone(job)[0] for job in model.jobs]
    lengths = [len(tone) for tone in tones]
    lengths[2] = round(lengths[2] / 1.25)
    pauses = 36_000 + 18_000  # the break, and after the paragraph
    samples = sound(answer.content)
    assert len(samples) == pytest.approx(sum(lengths) + pauses, abs=1200)
    first = np.round(tones[0] * 32767).astype(int)
    assert np.abs(samples[: len(first)] - first).max() <= 1
    assert not samples[len(first) : len(first) + 36_000].any()
    assert samples[len(first) + 36_000 + 4800 + 100 :].any()


def test_streams_have_the_samples_of_the_whole(server: WholeServer) -> None:
    whole = sound(ask(server, TALK, stream=False).content)
    streamed = ask(server, TALK, response_format="pcm")
    assert np.array_equal(np.frombuffer(streamed.content, "<i2"), whole)
    events = ask(server, TALK, response_format="pcm", stream_format="sse").text
    parts = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: ")]
    assert parts[-1]["type"] == "speech.audio.done"
    joined = b"".join(base64.b64decode(p["audio"]) for p in parts[:-1])
    assert joined == streamed.content


def test_words_have_places_in_the_text_and_in_the_sound(
    server: WholeServer, model: ToneModel
) -> None:
    answer = ask(server, TALK, timestamp_granularities=["word"]).json()
    text = "One here.\nTwo\nquickly.\nThree.\nFour."
    words = answer["words"]
    assert [text[w["start_character"] : w["end_character"]] for w in words] == [
        w["word"] for w in words
    ]
    lengths = [len(model.tone(job)[0]) / 24_000 for job in model.jobs]
    starts = [w["start"] for w in words]
    assert starts[0] == pytest.approx(0.2, abs=0.01)
    assert starts[1] == pytest.approx(lengths[0] + 1.5 + 0.2, abs=0.01)
    # At 1.25 times the tempo, the 0.2 s before the word are shorter, too.
    assert starts[2] == pytest.approx(lengths[0] + 1.5 + lengths[1] + 0.16, abs=0.01)


def test_what_is_left_out_is_told_or_refused(server: WholeServer) -> None:
    answer = ask(server, TALK)
    (warning,) = json.loads(answer.headers["x-warnings"])
    assert warning == "input:4: <blink> is not known; its text is spoken as it is"
    assert "x-warnings" not in ask(server, "<speak>Hello.</speak>").headers
    refused = ask(server, TALK, strict=True)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input")
    assert "<blink> is not known" in refused.json()["error"]["message"]
    many = "".join(f"<x{n}äöü>a</x{n}äöü>" for n in range(500))
    assert len(ask(server, f"<speak>{many}</speak>").headers["x-warnings"]) < 4000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<speak>", "input:1: the document is damaged"),
        ("<speak> <break time='1s'/> </speak>", "nothing to speak"),
        ("<speak>a<break time='1h'/></speak>", "<break> needs a time"),
        ("<speak>" + "a.<break time='500s'/>b." * 2 + "</speak>", "the pauses in the text"),
        ('<speak><voice name="nobody">a</voice></speak>', "there is no voice 'nobody'"),
        ('<speak><voice name="/etc/passwd">a</voice></speak>', "there is no voice"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>\n<speak>&b;</speak>', None),
        ("<speak>" + "<s>" * 100 + "a" + "</s>" * 100 + "</speak>", "nested deeper"),
        ("<speak>" + "word " * 3000 + "</speak>", "14999 characters"),
        ("Hello [pause:1h] there.", "is not a pause"),
        ("Hello." + " [pause:500s] Bye." * 2, "the pauses in the text"),
    ],
)
def test_bad_documents(
    text: str, message: str | None, server: WholeServer, model: ToneModel
) -> None:
    answer = ask(server, text, stream=False)
    if message is None:  # it begins otherwise, and so is a text
        assert answer.status_code == 200
        return
    assert answer.status_code in (400, 413), answer.text
    assert message in answer.json()["error"]["message"]
    assert model.said == []


def test_every_rest_route_reads_documents(server: WholeServer, model: ToneModel) -> None:
    text = '<speak>One. <voice name="echo">Two.</voice></speak>'
    plain = httpx.get(f"{server.url}/tts", params={"text": text}, timeout=PATIENCE)
    assert plain.status_code == 200
    batch = ask(server, "", "speech/batch", items=[{"input": text}]).json()
    assert batch["data"][0]["audio"]
    captioned = httpx.post(
        f"{server.url}/dev/captioned_speech",
        json={"input": text, "stream": False},
        timeout=PATIENCE,
    ).json()
    assert [w["word"] for w in captioned["timestamps"]] == ["One.", "Two."]
    assert model.said == ["One.", "Two."] * 3
