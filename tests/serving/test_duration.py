"""``duration`` over REST and the WebSocket: speech that has its time, and what cannot have it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from ChatTTS.audio import to_int16
from ChatTTS.serving.errors import BadRequestError
from ChatTTS.serving.requests.request import SpeechRequest
from ChatTTS.serving.requests.segments import read_marked

from ..support.serving_tools import RunningServer, running_server
from ..support.websocket_tools import EXTEND, Speaker

TEXT = "We went to the market to buy some bread."
SEED = 7


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(brief=False, extend=EXTEND, result_cache_bytes=1 << 22) as running:
        yield running


def ask(server: RunningServer, **fields: Any) -> httpx.Response:
    body = {"input": TEXT, "seed": SEED, "response_format": "pcm", **fields}
    return httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=60)


@pytest.fixture(scope="module")
def offline(server: RunningServer) -> np.ndarray[Any, np.dtype[np.int16]]:
    """The speech of the text in 2.4 s, as the library gives it."""
    params = server.service.voices.parameters(None) | {"manual_seed": SEED}
    [samples] = server.chat.infer(
        TEXT, skip_refine_text=True, params_infer_code=params, duration=2.4
    )
    assert len(samples) == round(2.4 * 24_000)
    return to_int16(samples)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_rest_gives_the_speech_of_the_library(
    server: RunningServer, offline: np.ndarray[Any, np.dtype[np.int16]], stream: bool
) -> None:
    answer = ask(server, duration=2.4, stream=stream)
    assert answer.status_code == 200, answer.text
    found = np.frombuffer(answer.content, "<i2").astype(int)
    assert len(found) == len(offline)
    assert np.abs(found - offline).max() <= 1


@pytest.mark.slow
def test_the_tempo_of_the_request_keeps_the_duration(server: RunningServer) -> None:
    answer = ask(server, duration=2.0, speed=1.25)
    assert answer.status_code == 200, answer.text
    assert len(answer.content) == 2 * 2 * 24_000


@pytest.mark.slow
def test_ssml_has_durations_of_its_own(server: RunningServer) -> None:
    ssml = f'<speak>{TEXT}<prosody duration="2400ms">{TEXT}</prosody></speak>'
    alone = ask(server)
    answer = ask(server, input=ssml)
    assert answer.status_code == 200, answer.text
    assert len(answer.content) - len(alone.content) == 2 * round(2.4 * 24_000)


@pytest.mark.slow
def test_the_tempo_of_the_request_keeps_the_durations_of_ssml(server: RunningServer) -> None:
    ssml = f'<speak><prosody duration="2s">{TEXT}</prosody></speak>'
    answer = ask(server, input=ssml, speed=1.25)
    assert answer.status_code == 200, answer.text
    assert len(answer.content) == 2 * 2 * 24_000


@pytest.mark.slow
def test_a_time_that_is_too_short_is_refused_with_the_shortest_one(server: RunningServer) -> None:
    for fields in ({"duration": 0.5}, {"duration": 0.5, "stream": False}):
        answer = ask(server, **fields)
        assert answer.status_code == 422
        error = answer.json()["error"]
        assert error["code"] == "duration_too_short"
        assert error["param"] == "duration"
        assert "the shortest time that it can take is 1." in error["message"]


def test_a_duration_is_not_for_documents() -> None:
    marked = read_marked('<speak><prosody duration="2s">One.</prosody></speak>')
    assert marked.segments[0].duration == 2.0
    with pytest.raises(BadRequestError, match="write <prosody duration> there"):
        SpeechRequest(marked.text, segments=marked.segments, duration=2.0)


@pytest.mark.slow
def test_results_of_other_durations_are_not_mixed(server: RunningServer) -> None:
    lengths = {
        len(ask(server, **fields).content)
        for fields in ({}, {"duration": 2.2}, {"duration": 2.4}, {"duration": 2.2})
    }
    assert len(lengths) == 3


@pytest.mark.slow
def test_a_context_speaks_its_whole_text_in_its_duration(
    socket: Speaker, offline: np.ndarray[Any, np.dtype[np.int16]]
) -> None:
    socket.say("session.config", seed=SEED, duration=2.4, response_format="pcm")
    for start in range(0, len(TEXT), 9):
        socket.say("input.text", text=TEXT[start : start + 9])
    socket.say("input.flush")
    done = socket.until("audio.done")
    assert done["text"] == TEXT
    assert done["total_samples"] == len(offline)


@pytest.mark.slow
def test_a_context_tells_what_is_too_short(socket: Speaker) -> None:
    socket.say("session.config", seed=SEED, duration=0.5)
    socket.say("input.text", text=TEXT)
    socket.say("input.flush")
    error = socket.until("error")
    assert "shortest time" in json.dumps(error)
