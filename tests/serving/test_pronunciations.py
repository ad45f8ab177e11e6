"""Pronunciations on a server whose voice reads phonemes: REST, the WebSocket and gRPC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from ChatTTS.serving.requests.segments import read_marked

from ..support.chat_tools import Recording
from ..support.phoneme_voice import load_phoneme_voice
from ..support.riva_tools import NATIVE, connected
from ..support.serving_tools import RunningServer, running_server
from ..support.websocket_tools import EXTEND, speaker

TOMATO = "təˈmɑːtoʊ"
PHONEMES = "təmˈɑtO"
SSML = f'<speak>we like a <phoneme ph="{TOMATO}">tomato</phoneme>.</speak>'
LEXICON = {"tomato": {"ipa": TOMATO}}


@pytest.fixture(scope="module")
def server(phoneme_checkpoint: Path) -> Iterator[RunningServer]:
    chat = load_phoneme_voice(phoneme_checkpoint, use_vllm=True)
    with running_server(extend=EXTEND, chat=chat, warm=False) as running:
        yield running
    chat.unload()


def prompts(server: RunningServer, recording: Recording) -> list[str]:
    """Return the phonemes of all that was spoken, each utterance on one line."""
    chat = server.chat
    texts = (
        "".join(chat.tokenizer.text(np.array([each])) for each in request.prompt.text)
        for request in recording.requests
    )
    return [re.sub(r"\[\w+\]|[<>]", "", text) for text in texts]


def post(server: RunningServer, **fields: Any) -> httpx.Response:
    body = {"seed": 3, "response_format": "pcm", **fields}
    return httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"input": SSML},
        {"input": f"we like a [ipa:{TOMATO}|tomato]."},
        {"input": "we like a tomato.", "lexicon": LEXICON},
        {"input": "we like a tomato.", "lexicon": {"tomato": f"/{TOMATO}/"}},
    ],
)
def test_rest(server: RunningServer, fields: dict[str, Any]) -> None:
    with Recording(server.chat) as recording:
        assert post(server, **fields).status_code == 200
    assert [line.split()[-1] for line in prompts(server, recording)] == [f"{PHONEMES}."]


def test_a_socket(server: RunningServer) -> None:
    with Recording(server.chat) as recording, speaker(server) as socket:
        socket.say("session.config", lexicon=LEXICON, seed=3)
        socket.say("input.text", text=f"we like a tomato. we like a [ipa:{TOMATO}|fruit].")
        socket.say("input.flush")
        socket.until("audio.done")
    assert " ".join(prompts(server, recording)).count(PHONEMES) == 2


def test_riva(server: RunningServer) -> None:
    with Recording(server.chat) as recording, connected(server) as client:
        client.speech.synthesize("we like it.", custom_dictionary={"it": f"/{TOMATO}/"}, **NATIVE)
        client.speech.synthesize(SSML, **NATIVE)
    lines = prompts(server, recording)
    assert [line.split()[-1] for line in lines] == [f"{PHONEMES}."] * 2


def test_wrong_symbols_are_the_clients_error(server: RunningServer) -> None:
    answer = post(server, input="we like a [ipa:t7|tea].")
    assert answer.status_code in (400, 422)
    assert "no sound for '7'" in answer.json()["error"]["message"]
    strict = post(server, input='<speak><phoneme ph="t7">tea</phoneme></speak>', strict=True)
    assert strict.status_code == 400
    assert "no sound for '7'" in strict.json()["error"]["message"]


def test_a_segment_has_the_mark() -> None:
    marked = read_marked(SSML)
    assert marked.text == f"we like a [ipa:{TOMATO}|tomato]."
    assert not marked.warnings
