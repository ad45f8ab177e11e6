"""The voice of requests that name none: that of the text's language, over every interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ChatTTS.config import Config
from ChatTTS.longform.script import Line, Script
from ChatTTS.serving.scripts.options import ScriptOptions
from ChatTTS.serving.scripts.planning import VoiceFinder
from ChatTTS.serving.speech.voices import Voices
from ChatTTS.voices import VoiceLibrary

from ..support.bundled_voice import BUNDLED
from ..support.protocol_clients import PROTOCOL_CLIENTS
from ..support.riva_tools import ask as riva_request
from ..support.riva_tools import connected
from ..support.server_tools import WholeServer, whole_server
from ..support.websocket_tools import speaker

ENGLISH, CHINESE = "Good night.", "早上好。"


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(unknown_voice="default", wyoming_port=0) as running:
        yield running


def voices(folder: Path, config: Config = BUNDLED, **options: Any) -> Voices:
    return Voices(config, VoiceLibrary(folder), **options)


# ------------------------------------------------------------------ which voice is the default


def test_the_language_chooses_where_nothing_is_named(tmp_path: Path) -> None:
    own = voices(tmp_path)
    assert [own.find(None, language=code).name for code in ("en", "zh", None)] == [
        "clara",
        "lan",
        "clara",
    ]
    assert own.find("miles", language="zh").name == "miles"
    assert own.follow_language(None)
    assert not own.follow_language("miles")


def test_a_default_voice_of_the_operator_is_kept(tmp_path: Path) -> None:
    given = voices(tmp_path, default="miles")
    assert given.find(None, language="zh").name == "miles"
    assert not given.follow_language(None)


def test_names_of_no_voice_have_the_voice_of_the_language(tmp_path: Path) -> None:
    lenient = voices(tmp_path, takes_unknown=True)
    found = lenient.find("nobody", language="zh")
    assert (found.name, found.is_substitute) == ("lan", True)
    assert lenient.follow_language("nobody")


def test_checkpoints_that_name_none_are_as_they_were(tmp_path: Path) -> None:
    plain = voices(tmp_path, Config.published(), fallback="一")
    assert not plain.follow_language(None)
    assert plain.find(None, language="zh") == plain.find(None)


# ------------------------------------------------------------------ the interfaces


@pytest.mark.slow
@pytest.mark.parametrize("ask", PROTOCOL_CLIENTS, ids=lambda ask: ask.__name__)
def test_the_language_chooses_over_every_interface(server: WholeServer, ask: Any) -> None:
    assert ask(server, CHINESE, "nobody-knows", 1) == ask(server, CHINESE, "lan", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "fields", "told"),
    [
        (CHINESE, {}, "lan"),
        (ENGLISH, {}, "clara"),
        (CHINESE, {"voice": "miles"}, "miles"),
        ("35", {"language": "zh"}, "lan"),
        (f"<speak>{CHINESE}<p>OK.</p></speak>", {}, "lan"),
    ],
)
def test_a_header_tells_it(
    client: httpx.Client, text: str, fields: dict[str, Any], told: str
) -> None:
    body = {"input": text, "response_format": "pcm", "seed": 1, **fields}
    assert client.post("/v1/audio/speech", json=body).headers["x-voice"] == told


def test_the_list_of_voices_tells_it(client: httpx.Client) -> None:
    told = client.get("/v1/audio/voices").json()
    assert (told["default"], told["language_defaults"]) == ("clara", {"zh": "lan"})


def test_texts_of_a_batch_choose_by_themselves(client: httpx.Client) -> None:
    items = [{"input": text, "seed": 1} for text in (ENGLISH, CHINESE)]
    data = client.post("/v1/audio/speech/batch", json={"items": items}).json()["data"]
    assert [item["voice"] for item in data] == ["clara", "lan"]


def test_vendors_that_need_no_voice_tell_it(server: WholeServer, client: httpx.Client) -> None:
    answer = client.post("/v1/speak", json={"text": CHINESE})
    assert (answer.headers["x-voice"], answer.headers["dg-model-name"]) == ("lan", "lan")
    with connected(server) as riva:
        asked = riva_request(CHINESE, language_code="zh-CN")
        _, call = riva.stub.Synthesize.with_call(asked)
        assert dict(call.initial_metadata())["x-voice"] == "lan"


def test_most_lines_of_a_script_choose_one_voice(server: WholeServer) -> None:
    def chosen(*texts: str, **options: Any) -> Any:
        finder = VoiceFinder(server.service, ScriptOptions(**options))
        finder.read(Script(tuple(Line(text) for text in texts)))
        return finder.parameters(None)["spk_emb"]

    speakers = BUNDLED.defaults.speakers
    assert chosen(CHINESE, "OK.") == speakers["lan"]
    assert chosen(ENGLISH, "好。") == speakers["clara"]
    assert chosen("35", language="zh") == speakers["lan"]


# ------------------------------------------------------------------ text that comes in parts


@pytest.mark.slow
def test_the_first_words_of_live_text_choose_and_the_voice_stays(server: WholeServer) -> None:
    with speaker(server) as talk:
        told = []
        talk.say("session.config", seed=1)
        for text in ("35.", CHINESE, ENGLISH):
            talk.say("input.text", text=text)
            talk.say("input.flush")
            told.append(talk.until("audio.start")["voice"])
            talk.until("audio.done")
    assert told == ["clara", "lan", "lan"]


@pytest.mark.slow
def test_later_utterances_have_the_voice_of_the_first(server: WholeServer) -> None:
    def sound(**config: Any) -> bytes:
        with speaker(server) as talk:
            talk.say("session.config", seed=1, **config)
            for text in (CHINESE, " And then we all go home again. "):
                talk.say("input.text", text=text * 20)
            talk.say("input.flush")
            talk.until("audio.done")
            assert len(talk.all("text.spoken")) > 1
            return talk.samples().tobytes()

    assert sound() == sound(voice="lan")
