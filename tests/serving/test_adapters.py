"""Adapters over the interfaces: as the field ``adapter``, and as voices of their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.common.random_adapter import save_adapter
from ChatTTS.checkpoints import assets
from ChatTTS.core import Chat
from ChatTTS.serving.errors import BadRequestError
from ChatTTS.serving.speech.voices import Voices
from ChatTTS.voices import SavedVoice, VoiceLibrary

from ..support.adapter_tools import shape_of
from ..support.serving_tools import RunningServer, running_server

SHORT = "Good night."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder, shape = tmp_path_factory.mktemp("adapters"), shape_of(assets.locate("bundled").path)
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu")
    speaker = chat.config.defaults.speakers["edith"]
    given: dict[str, Any] = {"rank": 2, "strength": 0.15}
    folders = {
        "anna": save_adapter(folder / "a", shape, seed=1, speaker=speaker, **given),
        "bert": save_adapter(folder / "b", shape, seed=2, **given),
    }
    chat.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1, adapter=folders)
    with running_server(chat=chat, result_cache_bytes=1 << 24) as running:
        yield running
    chat.unload()


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"input": SHORT, "response_format": "pcm", "seed": 1, **fields}
    return client.post("/v1/audio/speech", json=body)


@pytest.mark.slow
def test_each_name_is_a_voice_of_its_own(client: httpx.Client, server: RunningServer) -> None:
    plain, anna, bert = (ask(client, voice=v).content for v in (None, "anna", "bert"))
    assert len({plain, anna, bert}) == 3
    assert ask(client, adapter="anna").content == anna
    assert ask(client, voice="edith", adapter="anna").content == anna  # its own speaker
    assert ask(client, voice="Anna").content == anna
    assert ask(client, voice="anna", adapter="base").content == ask(client, voice="edith").content
    assert ask(client, adapter="base").content == plain
    assert ask(client, voice="edith", adapter="bert").content not in (plain, anna, bert)
    listed = client.get("/v1/audio/voices").json()["voices"]
    assert {v["id"] for v in listed if v["kind"] == "adapter"} == {"anna", "bert"}


@pytest.mark.slow
def test_an_alias_may_stand_for_one(server: RunningServer) -> None:
    model, library = server.service.model, VoiceLibrary(server.settings.voices)
    aliases = {"assistant": "Anna"}
    voices = Voices(model.config, library, adapters=model.adapters, aliases=aliases)
    assert {v.id: v.stands_for for v in voices.list()}["assistant"] == "anna"
    assert voices.parameters("assistant")["adapter"] == "anna"


def test_a_blend_does_not_drop_one(client: httpx.Client) -> None:
    answer = ask(client, voice="edith:0.5,Anna:0.5")
    assert answer.status_code == 400
    assert "'Anna' is an adapter" in answer.json()["error"]["message"]


def test_requests_are_counted_by_their_adapter(client: httpx.Client) -> None:
    def count(name: str) -> float:
        lines = client.get("/metrics").text.splitlines()
        start = f'chattts_adapter_requests_total{{adapter="{name}"}} '
        return next((float(x.removeprefix(start)) for x in lines if x.startswith(start)), 0.0)

    before = {name: count(name) for name in ("anna", "base")}
    for fields in ({"voice": "anna"}, {"adapter": "anna"}, {}):
        assert ask(client, **fields).status_code == 200
    assert {name: count(name) - before[name] for name in before} == {"anna": 2, "base": 1}


@pytest.mark.slow
def test_the_parts_of_ssml_keep_it(client: httpx.Client) -> None:
    text = f'<speak><voice name="anna">{SHORT}</voice></speak>'
    assert ask(client, input=text).content == ask(client, voice="anna").content
    assert ask(client, input=text, adapter="bert").content != ask(client, input=text).content


def test_unknown_names_are_told(client: httpx.Client) -> None:
    answer = ask(client, adapter="carl")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "adapter"
    assert "anna, bert" in error["message"]


def test_uploads_do_not_take_their_names(client: httpx.Client, server: RunningServer) -> None:
    speaker = server.chat.config.defaults.speakers["clara"]
    body = {"name": "Anna", "consent": "mine", "speaker": speaker}
    assert client.post("/v1/audio/voices", json=body).status_code == 400
    # Nor where uploads may take names that the server gives, since the adapter would speak.
    shadowing = Voices(
        server.chat.config,
        VoiceLibrary(server.settings.voices),
        adapters=server.chat.gpt.adapters,
        may_shadow=True,
    )
    for name in ("anna", "Bert"):
        with pytest.raises(BadRequestError, match="is an adapter"):
            shadowing.check_upload(name)
    library = VoiceLibrary(server.settings.voices)
    library.save(SavedVoice("bert", server.chat.config.gpt.hidden_size, "m", speaker=speaker))
    assert server.service.voices.parameters("bert")["adapter"] == "bert"
    assert [v.kind for v in server.service.voices.list() if v.id == "bert"] == ["adapter"]
    library.remove("bert")


@pytest.mark.slow
def test_the_default_adapter_is_the_default_voice(tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "a", shape_of(assets.locate("bundled").path), rank=1)
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1, adapter=folder)
    with running_server(chat=chat) as server:
        voices, defaults = server.service.voices, chat.config.defaults
        assert voices.default == "default"
        assert defaults.speaker is not None
        speaker = defaults.speakers[defaults.speaker]
        assert voices.parameters(None) == {"spk_emb": speaker, "adapter": "default"}
        assert voices.parameters(defaults.speaker) == {"spk_emb": speaker}
    chat.unload()
