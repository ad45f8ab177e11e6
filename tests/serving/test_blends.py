"""Blends of voices over the interfaces, and the routes of Kokoro-FastAPI for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from ChatTTS.voices import SavedVoice, VoiceLibrary, find_voice
from ChatTTS.voices.blends import blend

from ..support.bundled_voice import NAMES
from ..support.riva_tools import connected
from ..support.serving_tools import RunningServer, running_server

SHORT = "Good night."


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(aliases={"af_bella": "edith"}) as running:
        yield running


def ask(client: httpx.Client, voice: str) -> httpx.Response:
    body = {"input": SHORT, "response_format": "pcm", "seed": 1, "voice": voice}
    return client.post("/v1/audio/speech", json=body)


def mixed(server: RunningServer, first: float, second: float) -> Any:
    """Return the blend of clara and edith with these weights."""
    speakers, speaker = server.chat.config.defaults.speakers, server.chat.speaker
    return blend(
        [speaker.vector(speakers["clara"]), speaker.vector(speakers["edith"])], [first, second]
    )


@pytest.mark.slow
def test_all_spellings_are_one_voice(server: RunningServer, client: httpx.Client) -> None:
    spellings = (
        "clara:2,edith:1",
        "clara(2)+edith(1)",
        "CLARA(2)+af_bella",
        "clara:0.5,edith:0.25",
    )
    sounds = {ask(client, voice).content for voice in spellings}
    assert len(sounds) == 1
    with connected(server) as riva:
        settings = {"sample_rate_hz": 24_000, "custom_configuration": {"seed": "1"}}
        answer = riva.speech.synthesize(SHORT, voice_name=spellings[0], **settings)
    assert sounds == {answer.audio}
    assert sounds.isdisjoint({ask(client, "clara").content, ask(client, "clara+edith").content})
    string = server.service.voices.parameters("clara:2,edith:1")["spk_emb"]
    assert np.allclose(server.chat.speaker.vector(string), mixed(server, 2, 1), atol=1e-3)


@pytest.mark.parametrize(
    ("voice", "code"), [("clara+nobody", "voice_not_found"), ("clara+", "invalid_request")]
)
def test_blends_that_cannot_be_made(client: httpx.Client, voice: str, code: str) -> None:
    answer = ask(client, voice)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert client.post("/v1/audio/voices/combine", json=voice).status_code == 400


def test_a_recording_cannot_be_blended(server: RunningServer, client: httpx.Client) -> None:
    width = server.chat.config.gpt.hidden_size
    library = VoiceLibrary(server.settings.voices)
    library.save(SavedVoice("me", width, "m", sample="x", transcript="x"))
    for answer in (
        ask(client, "me+edith"),
        client.post("/v1/audio/voices/combine", json=["me", "edith"]),
        client.post("/v1/audio/voices/combine", json="me"),
    ):
        assert answer.status_code == 400
        assert "recording" in answer.json()["error"]["message"]
    library.remove("me")


@pytest.mark.parametrize("voices", ["clara+edith", ["clara", "af_bella"], ["clara(3)", "edith(3)"]])
def test_combine_returns_a_file_that_the_command_reads(
    server: RunningServer, client: httpx.Client, tmp_path: Path, voices: Any
) -> None:
    answer = client.post("/v1/audio/voices/combine", json=voices)
    path = tmp_path / "mix.pt"
    path.write_bytes(answer.content)
    tensor = torch.load(path, weights_only=True)
    assert np.allclose(tensor.numpy(), mixed(server, 1, 1), atol=1e-3)
    found = find_voice(str(path), server.chat.config, VoiceLibrary(tmp_path))
    assert np.allclose(server.chat.speaker.vector(found.parameters["spk_emb"]), tensor, atol=1e-3)


@pytest.mark.parametrize("voices", [[], ["", "edith"], ["edith"] * 9, 4])
def test_what_combine_refuses(client: httpx.Client, voices: Any) -> None:
    assert client.post("/v1/audio/voices/combine", json=voices).status_code == 400


def test_the_test_route(client: httpx.Client) -> None:
    assert client.get("/v1/test").json()["status"] == "ok"


def save(client: httpx.Client, name: str, speaker: str) -> httpx.Response:
    form = {"name": name, "speaker": speaker, "consent": "A mix of voices of this server."}
    return client.post("/v1/audio/voices", data=form)


def test_a_blend_is_saved_as_a_voice(client: httpx.Client) -> None:
    assert save(client, "both of us", "clara:70,AF_Bella:30").json()["kind"] == "speaker"
    assert ask(client, "both of us").content == ask(client, "clara:0.7,edith:0.3").content
    for speaker in ("clara", "clara:0,edith:1", "clara+nobody", "hello"):
        error = save(client, "wrong", speaker)
        assert error.status_code == 400, speaker
        assert error.json()["error"]["param"] == "speaker"


def test_the_list_tells_what_names_stand_for(client: httpx.Client) -> None:
    listed = client.get("/v1/audio/voices").json()
    meant = {voice["id"]: voice["stands_for"] for voice in listed["voices"]}
    kinds = {voice["id"]: voice["kind"] for voice in listed["voices"]}
    assert (meant["af_bella"], meant["alloy"], meant["ash"], meant["clara"]) == (
        *("edith", *NAMES[:2]),
        None,
    )
    assert all((meant[name] is not None) == (kind == "alias") for name, kind in kinds.items())
    assert {name for name in meant.values() if name} <= kinds.keys()
