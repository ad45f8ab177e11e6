"""Requests of clients that were written for other servers: what they ask for is taken kindly."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import av
import httpx
import numpy as np
import openai
import pytest

from ChatTTS.errors import VoiceError
from ChatTTS.serving.errors import BadRequestError, UnknownVoiceError
from ChatTTS.serving.speech.recordings import read_recording
from ChatTTS.voices import SavedVoice, VoiceLibrary, check_name

from ..support.riva_tools import connected
from ..support.server_tools import decoded
from ..support.serving_tools import RunningServer, running_server
from ..support.speech_requests import SHORT, ask

ALIASES = {"alloy": "edith", "Kitchen Lamp": "miles", "English-US.Female-1": "edith"}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(aliases=ALIASES) as running:
        yield running


@pytest.fixture(scope="module")
def spoken(client: httpx.Client) -> bytes:
    """The sound of SHORT by the voice edith."""
    return ask(client, voice="edith").content


# ------------------------------------------------------------------ names


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt-4o-mini-tts-2025-12-15", "kokoro", "", None])
def test_any_model_is_taken_and_the_true_one_is_told(
    server: RunningServer, client: httpx.Client, spoken: bytes, model: str | None
) -> None:
    answer = ask(client, voice="edith", model=model)
    assert answer.content == spoken
    assert answer.headers["x-model"] == server.chat.config.defaults.name


@pytest.mark.slow
@pytest.mark.parametrize("voice", ["EDITH", "alloy", "Alloy", " kitchen LAMP", {"id": "eDith"}])
def test_voices_have_further_names_in_any_case(
    client: httpx.Client, spoken: bytes, voice: Any
) -> None:
    answer = ask(client, voice=voice)
    assert answer.status_code == 200
    assert (answer.content == spoken) == ("kitchen" not in str(voice))


def test_aliases_are_listed_once(client: httpx.Client) -> None:
    voices = client.get("/v1/audio/voices").json()["voices"]
    ids = [voice["id"] for voice in voices]
    assert len(ids) == len(set(ids))
    assert {name: ids.count(name) for name in ALIASES} == dict.fromkeys(ALIASES, 1)


def test_captions_and_batches_take_objects_and_any_model(client: httpx.Client) -> None:
    body = {"input": SHORT, "model": "tts-9", "voice": {"id": "EDITH"}, "return_timestamps": False}
    assert client.post("/dev/captioned_speech", json=body).headers["x-model"]
    items = [{"input": SHORT, "voice": {"id": "EDITH"}}, {"input": "**"}]
    batch = client.post("/v1/audio/speech/batch", json={"model": "x", "items": items}).json()
    spoken, silent = batch["data"]
    assert spoken["error"] is None
    assert silent["error"]["param"] == "input"  # a batch is this server's own route


def test_openai_names_follow_the_alias(server: RunningServer, spoken: bytes) -> None:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
    answer = client.audio.speech.create(
        model="tts-1-1106",
        voice={"id": "alloy"},
        input=SHORT,
        response_format="pcm",
        extra_body={"seed": 1},
    )
    assert answer.content == spoken


def test_an_alias_stands_for_a_voice_of_riva(server: RunningServer, spoken: bytes) -> None:
    settings = {"sample_rate_hz": 24_000, "custom_configuration": {"seed": "1"}}
    with connected(server) as riva:
        answer = riva.speech.synthesize(SHORT, voice_name="English-US.Female-1", **settings)
        other = riva.speech.synthesize(SHORT, voice_name="English-US.EDITH", **settings)
    assert answer.audio == spoken == other.audio


def test_an_alias_of_nothing_stops_the_start(server: RunningServer) -> None:
    from ChatTTS.serving.speech.voices import Voices

    library = VoiceLibrary(server.settings.voices)
    with pytest.raises(UnknownVoiceError, match="'a' stands for the voice 'nobody'"):
        Voices(server.chat.config, library, aliases={"a": "nobody"})


# ------------------------------------------------------------------ names of uploads


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Anna Müller", "安娜", "अन्ना", "O'Neil Jr.", "Анна_2"])
def test_display_names_of_any_script(
    server: RunningServer, client: httpx.Client, name: str
) -> None:
    form = {"name": name, "consent": "agreed", "speaker": edith(server)}
    assert client.post("/v1/audio/voices", data=form).json()["id"] == name
    assert name in [voice["id"] for voice in client.get("/v1/audio/voices").json()["voices"]]
    assert server.settings.voices is not None
    (file,) = server.settings.voices.glob("*.json")
    assert file.name.isascii()
    answer = ask(client, voice=f" {name.upper()}")
    assert answer.content == ask(client, voice="edith").content
    assert client.delete(f"/v1/audio/voices/{name}").json()["id"] == name
    assert not list(server.settings.voices.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "..",
        "a\\b",
        "a\x00",
        "a\n",
        " a",
        "a  b",
        "😀",
        "a:b",
        "a+b",
        "con",
        "ü" * 65,
        "好" * 23,
    ],
)
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(VoiceError, match="cannot be called"):
        check_name(name)


def test_the_library_finds_only_files_that_it_names_itself(tmp_path: Any) -> None:
    library = VoiceLibrary(tmp_path)
    path = library.save(SavedVoice("Zoë B.", 8, "m", speaker="x"))
    (tmp_path / "Zoë C.json").write_text(path.read_text("utf-8"), "utf-8")
    (tmp_path / "a%2Fb.json").write_text(path.read_text("utf-8"), "utf-8")
    assert path.name == "Zo%C3%AB%20B%2E.json"
    assert library.names() == ["Zoë B."]
    assert library.load("Zoë B.").speaker == "x"


@pytest.mark.parametrize("name", ["alloy", "Nova", "edith", "kitchen lamp"])
def test_an_upload_takes_no_name_of_an_open_server(
    server: RunningServer, client: httpx.Client, name: str
) -> None:
    form = {"name": name, "consent": "agreed", "speaker": edith(server)}
    answer = client.post("/v1/audio/voices", data=form)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "name")


@pytest.mark.slow
def test_it_may_where_that_is_allowed(server: RunningServer) -> None:
    own: dict[str, Any] = {"chat": server.chat, "warm": False}
    form = {"name": "nova", "consent": "agreed", "speaker": edith(server)}
    with running_server(may_shadow=True, **own) as other:
        assert httpx.post(f"{other.url}/v1/audio/voices", data=form).status_code == 200
    with running_server(api_keys=("k",), **own) as other:
        headers = {"authorization": "Bearer k"}
        answer = httpx.post(f"{other.url}/v1/audio/voices", data=form, headers=headers)
        assert answer.status_code == 200


def edith(server: RunningServer) -> str:
    return server.chat.config.defaults.speakers["edith"]


# ------------------------------------------------------------------ nothing to speak


@pytest.mark.parametrize("text", ["**", "---", "😀", "..."])
@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"response_format": "mp3"}])
def test_a_text_without_words_is_a_short_silence(
    server: RunningServer, client: httpx.Client, text: str, fields: dict[str, Any]
) -> None:
    answer = ask(client, input=text, **fields)
    assert answer.status_code == 200
    assert answer.headers["x-silence"] == "nothing to speak"
    if "response_format" not in fields:
        assert answer.content == bytes(2 * 4800)
    else:
        assert not np.abs(decoded(answer.content)[0]).max()
    assert server.becomes_idle()


def test_only_such_a_text_is_silent(client: httpx.Client) -> None:
    assert "x-silence" not in ask(client).headers
    assert client.get("/tts", params={"text": "**"}).status_code == 422
    captioned = client.post("/dev/captioned_speech", json={"input": "**", "stream": False})
    assert captioned.headers["x-silence"]
    assert captioned.json()["timestamps"] == []


# ------------------------------------------------------------------ HEAD


def requests(server: RunningServer) -> list[str]:
    lines = server.service.metrics.render().decode().splitlines()
    return [line for line in lines if line.startswith("chattts_requests")]


def test_head_speaks_nothing(server: RunningServer, client: httpx.Client) -> None:
    before = requests(server)
    head = client.head("/tts", params={"text": SHORT, "format": "mp3"})
    assert (head.status_code, head.headers["content-type"]) == (200, "audio/mpeg")
    assert requests(server) == before
    assert client.head("/v1/audio/speech").status_code == 405
    assert client.head("/nothing").status_code == 404


# ------------------------------------------------------------------ recordings


def recorded(container: str, codec: str, seconds: float = 2.0, rate: int = 48_000) -> bytes:
    """Return a tone as a phone or a browser records it."""
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)
    data = io.BytesIO()
    with av.open(data, "w", format=container) as out:
        stream = out.add_stream(codec, rate=rate, layout="mono")
        frame = av.AudioFrame.from_ndarray(tone.astype(np.float32)[None], "fltp", "mono")
        frame.sample_rate = rate
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            out.mux(packet)
    return data.getvalue()


@pytest.mark.parametrize(
    ("container", "codec"), [("ipod", "aac"), ("webm", "libopus"), ("adts", "aac")]
)
def test_recordings_of_phones_and_browsers(container: str, codec: str) -> None:
    samples, rate = read_recording(recorded(container, codec), "audio_sample")
    assert rate == 48_000
    assert samples.dtype == np.float32
    assert len(samples) == pytest.approx(2 * rate, abs=4000)
    middle = samples[rate // 2 : rate]
    assert np.abs(middle).max() == pytest.approx(0.5, abs=0.05)
    assert np.argmax(np.abs(np.fft.rfft(middle))) / 0.5 == pytest.approx(440, abs=2)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (recorded("ipod", "aac", seconds=31.5), "longer than 30 s"),
        (recorded("webm", "libopus")[:300], "no sound|damaged|cut off"),
        (b"\x00\x00\x00\x20ftypM4A " + bytes(500), "damaged|no sound"),
        (b"\x1aE\xdf\xa3" + bytes(500), "damaged|no sound"),
        (recorded("matroska", "pcm_s16le"), "send AAC"),
    ],
)
def test_recordings_that_cannot_be_used(data: bytes, words: str) -> None:
    with pytest.raises(BadRequestError, match=words):
        read_recording(data, "audio_sample")


def test_a_recording_in_m4a_becomes_a_voice(server: RunningServer, client: httpx.Client) -> None:
    form = {"name": "phone", "consent": "agreed", "ref_text": "Ah."}
    files = {"audio_sample": ("me.m4a", recorded("ipod", "aac"))}
    answer = client.post("/v1/audio/voices", data=form, files=files)
    assert answer.json()["kind"] == "sample"
    client.delete("/v1/audio/voices/phone")
