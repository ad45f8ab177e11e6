"""Names of voices that programs for other servers send, and names that no server knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ChatTTS.errors import ConfigError
from ChatTTS.serving.errors import BadRequestError, UnknownVoiceError
from ChatTTS.serving.requests.vendor_voices import OPENAI_NAMES, is_vendor_voice, speaker_for
from ChatTTS.serving.settings import Settings
from ChatTTS.serving.speech.voices import Voices
from ChatTTS.voices import VoiceLibrary

from ..support.bundled_voice import BUNDLED, NAMES
from ..support.protocol_clients import PROTOCOL_CLIENTS
from ..support.riva_tools import ask as riva_request
from ..support.riva_tools import connected
from ..support.server_tools import WholeServer, whole_server
from ..support.websocket_tools import speaker

SHORT = "Good night."
WOMEN, MEN = {"clara", "edith"}, {"miles", "hugh"}
CHINESE_WOMEN, CHINESE_MEN = {"lan", "yue"}, {"ming", "bo"}
# As vendors, their documents and their clients have them.
DEFAULTS = [
    ("alloy", WOMEN),
    ("onyx", MEN),
    ("21m00Tcm4TlvDq8ikWAM", WOMEN),  # Rachel
    ("JBFqnCBsd6RMkjVDRZzb", MEN),  # George
    ("SAz9YHcvj6GT2YYXdXww", WOMEN | MEN),  # River
    ("aura-2-helena-en", WOMEN),
    ("aura-2-zeus-en", MEN),
    ("af_heart", WOMEN),
    ("bm_george", MEN),
    ("zf_xiaobei", CHINESE_WOMEN),
    ("zm_yunxi", CHINESE_MEN),
    ("en-US-AvaNeural", WOMEN),
    ("EN-us-guyneural", MEN),
    ("zh-CN-XiaoxiaoNeural", CHINESE_WOMEN),
    ("zh-CN-YunxiNeural", CHINESE_MEN),
    ("694f9389-aac1-45b6-b726-9d9369183238", WOMEN),  # Sarah
    ("a0e99841-438c-4a64-b679-ae501e7d6091", MEN),
    ("2222", CHINESE_WOMEN | CHINESE_MEN),
    ("English-US.Female-1", WOMEN),
]


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(unknown_voice="default", default_voice="miles", wyoming_port=0) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: WholeServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as one:
        yield one


def speech(client: httpx.Client, voice: Any, **fields: Any) -> httpx.Response:
    body = {"input": SHORT, "response_format": "pcm", "seed": 1, "voice": voice, **fields}
    return client.post("/v1/audio/speech", json=body)


# ------------------------------------------------------------------ the table


@pytest.mark.parametrize(("name", "speakers"), DEFAULTS)
def test_a_vendors_voice_has_a_speaker_of_its_language_and_sex(
    name: str, speakers: set[str]
) -> None:
    assert speaker_for(name, NAMES) in speakers


def test_neighbours_differ_and_other_checkpoints_take_turns() -> None:
    assert speaker_for("alloy", NAMES) != speaker_for("coral", NAMES)
    assert [speaker_for(name, ("anna", "bert")) for name in OPENAI_NAMES[:3]] == [
        *("anna", "bert", "anna")
    ]
    assert speaker_for("alloy", ()) is None
    assert speaker_for("nobody", NAMES) is None
    assert not is_vendor_voice("Rachel")  # people give voices their own names


def test_an_alias_and_a_saved_voice_come_before_a_vendors(tmp_path: Any) -> None:
    voices = Voices(BUNDLED, VoiceLibrary(tmp_path), aliases={"af_heart": "hugh", "me": "am_adam"})
    assert voices.find("AF_Heart").name == "hugh"
    assert voices.find("me").name in MEN
    assert {info.id: info.stands_for for info in voices.list()}["me"] in MEN
    assert "af_bella" not in {info.id for info in voices.list()}
    with pytest.raises(BadRequestError, match="voice of this server"):
        voices.check_upload("AF_bella")
    with pytest.raises(BadRequestError, match="voice of this server"):
        voices.save("af_bella", consent="yes", speaker=BUNDLED.defaults.speakers["hugh"])
    open_voices = Voices(BUNDLED, VoiceLibrary(tmp_path), may_shadow=True)
    open_voices.save("af_bella", consent="yes", speaker=BUNDLED.defaults.speakers["hugh"])
    assert open_voices.find("af_bella").name == "af_bella"


# ------------------------------------------------------------------ names of no voice


def test_a_refusal_says_what_would_help(tmp_path: Any) -> None:
    voices = Voices(BUNDLED, VoiceLibrary(tmp_path))
    for name in ("nobody", "clara+nobody"):
        with pytest.raises(UnknownVoiceError, match=r"--alias .* --unknown-voice default"):
            voices.find(name)
    with pytest.raises(ConfigError, match="unknown_voice must be refuse or default"):
        Settings(unknown_voice="maybe")


@pytest.mark.slow
def test_what_is_stored_or_set_must_exist(tmp_path: Any, client: httpx.Client) -> None:
    library = VoiceLibrary(tmp_path)
    for fields in ({"default": "nobody"}, {"aliases": {"a": "nobody"}}):
        with pytest.raises(UnknownVoiceError):
            Voices(BUNDLED, library, takes_unknown=True, **fields)
    form = {"name": "mix", "speaker": "clara+nobody", "consent": "Both agreed."}
    assert client.post("/v1/audio/voices", data=form).status_code == 400
    assert client.post("/v1/audio/voices/combine", json="clara+nobody").status_code == 400


@pytest.mark.slow
@pytest.mark.parametrize("ask", PROTOCOL_CLIENTS, ids=lambda ask: ask.__name__)
def test_the_default_voice_speaks_over_every_interface(server: WholeServer, ask: Any) -> None:
    expected = ask(server, SHORT, "miles", 1)
    assert expected != ask(server, SHORT, "clara", 1)
    assert ask(server, SHORT, "nobody-knows", 1) == expected


def test_clients_find_the_voice_that_they_name(client: httpx.Client) -> None:
    sent = {"xi-api-key": "none"}
    for name in ("21m00Tcm4TlvDq8ikWAM", "nobody"):
        voice = client.get(f"/v1/voices/{name}", headers=sent).json()
        assert voice["voice_id"] == name
        assert client.get(f"/voices/{name}").json()["id"] == name


# ------------------------------------------------------------------ which voice spoke


@pytest.mark.slow
@pytest.mark.parametrize(
    ("voice", "told"),
    [
        ("af_heart", "clara"),
        ("EDITH", "edith"),
        (None, "miles"),
        ("nobody", "miles"),
        ("clara:0.7,edith:0.3", "clara:0.7,edith:0.3"),
        (BUNDLED.defaults.speakers["hugh"], "(speaker string)"),
    ],
)
def test_a_header_tells_the_voice(client: httpx.Client, voice: str | None, told: str) -> None:
    named = {} if voice is None else {"voice": voice}
    for answer in (
        speech(client, voice),
        speech(client, voice, stream=False),
        speech(client, voice, stream_format="sse"),
        client.get("/tts", params={"text": SHORT, **named}),
        client.post("/dev/captioned_speech", json={"input": SHORT, **named}),
        client.post("/dev/captioned_speech", json={"input": SHORT, "stream": False, **named}),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-voice"].replace("%28", "(").replace("%29", ")") == told
    batch = client.post("/v1/audio/speech/batch", json={"items": [{"input": SHORT, **named}]})
    assert batch.json()["data"][0]["voice"] == told


@pytest.mark.slow
def test_vendors_answers_and_sockets_tell_it(server: WholeServer, client: httpx.Client) -> None:
    raw = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
    fields = {"transcript": SHORT, "voice": "af_heart", "output_format": raw}
    for answer in (
        client.post("/v1/text-to-speech/af_heart", json={"text": SHORT}),
        client.post("/v1/text-to-speech/af_heart/stream", json={"text": SHORT}),
        client.post("/v1/speak?model=af_heart", json={"text": SHORT}),
        client.post("/tts/bytes", json=fields),
        client.post("/tts/sse", json=fields),
    ):
        assert answer.headers["x-voice"] == "clara", answer.text
    with speaker(server) as talk:
        talk.say("session.config", voice="af_heart")
        talk.say("input.text", text=SHORT)
        talk.say("input.flush")
        assert talk.until("audio.start")["voice"] == "clara"
    with connected(server) as riva:
        _, call = riva.stub.Synthesize.with_call(riva_request(SHORT, voice_name="Any.af_heart"))
        assert dict(call.initial_metadata())["x-voice"] == "clara"


def test_a_script_warns_of_each_unknown_voice(server: WholeServer, client: httpx.Client) -> None:
    script = [{"voice": "Zoe", "text": "Hello."}, {"voice": "clara", "text": "Hello."}]
    job = client.post("/v1/audio/scripts", json={"script": script}).json()
    (warning,) = client.get(f"/v1/audio/scripts/{job['id']}").json()["warnings"]
    assert "no voice 'Zoe'; miles speaks" in json.dumps(warning)
