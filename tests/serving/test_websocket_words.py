"""Words in step with the sound over a WebSocket, and the word at which a listener interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ChatTTS.pipeline.results import Waveforms
from ChatTTS.serving.encoding import Encoder

from ..support.serving_tools import RunningServer, running_server
from ..support.websocket_tools import EXTEND, Speaker

TEXT = "Dr. Smith paid $5.20. It was very cold last night, and we went home."
SEED = 7
SETTINGS: dict[str, Any] = {"seed": SEED, "word_times": True}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(brief=False, extend=EXTEND) as running:
        yield running


@pytest.fixture(scope="module")
def expected(server: RunningServer) -> list[dict[str, Any]]:
    """The words of the whole text, at normal tempo."""
    params = server.service.voices.parameters(None) | {"manual_seed": SEED}
    waveforms: Waveforms = server.chat.infer(
        TEXT, skip_refine_text=True, params_infer_code=params, word_times=True
    )
    assert len(waveforms.rows[0].utterances) > 1
    return [
        {
            "word": word.text,
            "start": round(word.start, 3),
            "end": round(word.end, 3),
            "start_character": word.start_character,
            "end_character": word.end_character,
            "confidence": word.confidence,
        }
        for word in waveforms.words[0]
    ]


def words(socket: Speaker, context: str | None = None) -> list[dict[str, Any]]:
    return [word for m in socket.all("text.words", context) for word in m["words"]]


def speak(socket: Speaker, **settings: Any) -> dict[str, Any]:
    """Speak the text in one run; return its ``audio.done``."""
    socket.say("session.config", **{**SETTINGS, **settings})
    for start in range(0, len(TEXT), 9):
        socket.say("input.text", text=TEXT[start : start + 9])
    socket.say("input.flush")
    return socket.until("audio.done")


@pytest.mark.slow
def test_the_words_of_a_run_are_those_of_the_whole_text(
    socket: Speaker, expected: list[dict[str, Any]]
) -> None:
    done = speak(socket)
    assert words(socket) == expected
    assert [done["text"][w["start_character"] : w["end_character"]] for w in expected] == [
        w["word"] for w in expected
    ]


@pytest.mark.slow
def test_words_come_in_step_with_the_sound(socket: Speaker) -> None:
    socket.say("session.config", **SETTINGS)
    socket.say("input.text", text=TEXT)
    socket.say("input.done")
    since: list[dict[str, Any]] = []
    while (message := socket.hear())["type"] != "session.done":
        if message["type"] == "text.words":
            since += message["words"]
        elif message["type"] == "sound":
            # None is announced before the sound that it begins in.
            assert all(word["start"] < len(socket.audio[None]) / 48_000 for word in since)
            since = []
    assert len(socket.all("text.words")) > 3


@pytest.mark.slow
def test_no_word_waits_for_the_next_utterance(
    socket: Speaker, expected: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "push", lambda encoder, samples: b"")  # it holds the sound back
    speak(socket)
    assert words(socket) == expected


@pytest.mark.slow
def test_each_run_and_each_context_has_words_of_its_own(
    socket: Speaker, expected: list[dict[str, Any]]
) -> None:
    speak(socket)
    socket.messages.clear()
    speak(socket)
    assert words(socket) == expected
    socket.say("session.config", "other", word_times=False)
    for name in ("other", "third"):
        socket.say("input.text", name, text="No.")
        socket.say("input.done", name)
    for _ in range(2):
        while socket.hear()["type"] != "session.done":
            pass
    assert words(socket, "other") == []
    assert [word["word"] for word in words(socket, "third")] == ["No"]


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "speed"), [(24_000, 1.0), (8_000, 2.0)])
def test_the_last_word_that_was_heard(
    socket: Speaker, expected: list[dict[str, Any]], rate: int, speed: float
) -> None:
    speak(socket, sample_rate=rate, speed=speed)
    heard = words(socket)
    assert [word["start"] for word in heard] == pytest.approx(
        [word["start"] / speed for word in expected], abs=2e-3
    )
    assert len(heard) == len(expected)
    for number in (0, 3, 5, len(heard) - 1):
        now = heard[number]
        played = round((now["start"] + now["end"]) / 2 * rate)
        socket.say("input.cancel", played_samples=played)
        cancelled = socket.until("audio.cancelled")
        assert cancelled["is_exact"]
        assert cancelled["last_word"] == (heard[number - 1] if number else None)
        before = TEXT[: now["start_character"]].rstrip()
        assert cancelled["spoken_text"].strip() == before
    socket.say("input.cancel", played_samples=10**9)
    cancelled = socket.until("audio.cancelled")
    assert cancelled["last_word"] == heard[-1]
    assert cancelled["spoken_text"] == TEXT


@pytest.mark.slow
def test_an_interruption_while_it_speaks(socket: Speaker, expected: list[dict[str, Any]]) -> None:
    socket.say("session.config", **SETTINGS)
    socket.say("input.text", text=TEXT * 4)
    socket.say("input.flush")
    while len(words(socket)) < 5:
        socket.hear()
    third = expected[2]
    socket.say("input.cancel", played_samples=round(third["start"] * 24_000) + 1000)
    cancelled = socket.until("audio.cancelled")
    assert (cancelled["last_word"], cancelled["is_exact"]) == (expected[1], True)
    assert cancelled["spoken_text"] == "Dr. Smith"
    assert cancelled["sent_samples"] == len(socket.samples())


@pytest.mark.slow
@pytest.mark.parametrize("setting", [{"word_times": True}, {"guard": "report"}])
def test_a_server_that_knows_no_words_says_so(
    socket: Speaker,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    setting: dict[str, Any],
) -> None:
    monkeypatch.setattr(server.service, "_gives_attention", False)
    socket.say("session.config", seed=SEED, **setting)
    error = socket.until("error")["error"]
    assert (error["param"], error["code"]) == (next(iter(setting)), "invalid_request")
    socket.say("input.text", text="No.")
    socket.say("input.done")
    socket.until("session.done")
    assert words(socket) == []
