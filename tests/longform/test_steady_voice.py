"""Readings that stay steady: what leaves the usual manner of a voice is spoken again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ChatTTS.audio.samples import SAMPLE_RATE
from ChatTTS.audio.voice_print import print_distance, voice_print
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.longform.files import parse_script
from ChatTTS.longform.recording import SpokenPiece
from ChatTTS.longform.settings import ReadSettings
from ChatTTS.longform.steadiness import Heard, Trait, Usual, heard_in
from ChatTTS.model.generation import FinishReason
from ChatTTS.pipeline.results import SpokenText, SpokenUtterance, Waveforms, Word

from ..support.chat_tools import LIVELY
from ..support.longform_tools import noise

SETTINGS = ReadSettings(parameters={**LIVELY, "spk_emb": "steady"}, steady="retry")
LINES = [
    f"This is the line with the number {name}, as it stands in the book."
    for name in ("one", "two", "three", "four", "five", "six", "seven", "eight")
]
BOOK = "\n\n".join(LINES)


@dataclass
class Unsteady:
    """Replaces ``Chat.infer``: each line has one utterance, and some have another manner.

    Attributes:
        manner: of a text, by the number of its attempt and whether it continues a sample.
        calls: the texts and parameters of each call.
    """

    manner: Callable[[str, int, bool], dict[str, float]] = lambda text, attempt, sampled: {}
    calls: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)

    def __call__(self, given: Any, **arguments: Any) -> Waveforms:
        code = arguments["params_infer_code"]
        texts = [given] if isinstance(given, str) else given
        is_reference = not isinstance(given, str)
        attempt = 0
        if not is_reference:
            attempt = sum(text == given for text, _ in self.calls)
        self.calls.append((given, arguments))
        sounds, rows = [], []
        for text in texts:
            manner = {} if is_reference else self.manner(text, attempt, "spk_smp" in code)
            sound = noise(text, **manner)
            words = [Word(text, 0.0, 1.0, 0, len(sound), 0, len(text), 1.0)]
            said = SpokenUtterance(text, len(sound), FinishReason.STOP, words)
            sounds.append(sound)
            rows.append(SpokenText([said]))
        return Waveforms(sounds, rows)


@pytest.fixture
def fake(standard: Chat, monkeypatch: pytest.MonkeyPatch) -> Unsteady:
    unsteady = Unsteady()
    monkeypatch.setattr(standard, "infer", unsteady)
    monkeypatch.setattr(standard, "sample_audio_speaker", lambda *_, **__: "sample")
    monkeypatch.setattr("ChatTTS.longform.plan.find_voice", lambda *_: _Nothing())
    return unsteady


class _Nothing:
    parameters: dict[str, str] = {}  # noqa: RUF012


def heard(chat: Chat, settings: ReadSettings = SETTINGS, book: str = BOOK) -> list[SpokenPiece]:
    with chat.read(parse_script(book), settings) as recording:
        return list(recording)


def is_near(piece: SpokenPiece, voice: float = 1.0) -> bool:
    """Return whether a piece has that voice."""
    distance = print_distance(
        voice_print(piece.samples), voice_print(noise(piece.line.text, voice)), 2.0
    )
    return distance < 1.0


def test_a_strange_voice_is_spoken_again(standard: Chat, fake: Unsteady) -> None:
    fake.manner = lambda text, attempt, _: (
        {"voice": 9.0} if "three" in text and attempt == 0 else {}
    )
    assert not is_near(heard(standard, replace(SETTINGS, steady=None))[2])
    fake.calls.clear()
    pieces = heard(standard)
    assert all(map(is_near, pieces))
    lines = [(text, a) for text, a in fake.calls if isinstance(text, str)]
    assert sorted(text for text, _ in lines) == sorted([*LINES, LINES[2]])
    first, again = (a["params_infer_code"]["manual_seed"] for t, a in lines if t == LINES[2])
    assert first == 0
    assert 0 < again < 2**63


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manner", "trait"),
    [({"voice": 9.0}, "voice"), ({"level": 0.2}, "loudness"), ({"pace": 0.08}, "pace")],
)
def test_a_trait_that_stays_strange_is_told(
    standard: Chat, fake: Unsteady, caplog: pytest.LogCaptureFixture, manner: Any, trait: str
) -> None:
    fake.manner = lambda text, *_: manner if "four" in text else {}
    with caplog.at_level(logging.WARNING, "ChatTTS"):
        heard(standard)
    assert sum(text == LINES[3] for text, _ in fake.calls) == 4
    told = [record.message for record in caplog.records if "usual" in record.message]
    assert any(f"script:7: the {trait} is not the usual one in 'This is the" in t for t in told)
    assert all(message.startswith("script:7: ") for message in told)


def test_a_report_speaks_nothing_again(
    standard: Chat, fake: Unsteady, caplog: pytest.LogCaptureFixture
) -> None:
    fake.manner = lambda text, *_: {"voice": 9.0} if "four" in text else {}
    with caplog.at_level(logging.WARNING, "ChatTTS"):
        pieces = heard(standard, replace(SETTINGS, steady="report"))
    assert not is_near(pieces[3])
    assert sum(text == LINES[3] for text, _ in fake.calls) == 1
    assert "the voice is not the usual one" in caplog.text


def test_later_attempts_continue_a_sample_of_the_voice(standard: Chat, fake: Unsteady) -> None:
    fake.manner = lambda text, _, sampled: {"voice": 9.0} if "four" in text and not sampled else {}
    assert all(map(is_near, heard(standard)))
    sampled = [a["params_infer_code"] for _, a in fake.calls if "spk_smp" in a["params_infer_code"]]
    assert len(sampled) == 1
    assert sampled[0]["spk_smp"] == "sample"
    assert sampled[0]["txt_smp"] in LINES


def test_the_attempt_nearest_to_the_usual_is_kept(standard: Chat, fake: Unsteady) -> None:
    voices = [9.0, 5.0, 7.0, 8.0]
    fake.manner = lambda text, attempt, _: {"voice": voices[attempt]} if "four" in text else {}
    assert is_near(heard(standard)[3], 5.0)


def test_a_kept_line_is_not_judged_again(standard: Chat, fake: Unsteady, tmp_path: Path) -> None:
    first = list(standard.read(parse_script(BOOK), SETTINGS, folder=tmp_path))
    spoken = len(fake.calls)
    second = list(standard.read(parse_script(BOOK), SETTINGS, folder=tmp_path))
    assert len(fake.calls) == spoken
    assert all(np.array_equal(a.samples, b.samples) for a, b in zip(first, second, strict=True))
    for other in (None, "report"):
        reading = standard.read(parse_script(BOOK), replace(SETTINGS, steady=other))
        assert reading.lines_kept == 0


def test_a_voice_without_enough_of_its_own_speaks_sample_sentences(
    standard: Chat, fake: Unsteady
) -> None:
    heard(standard, book="This is all that there is to say in the book.")
    references = [text for text, _ in fake.calls if not isinstance(text, str)]
    assert len(references) == 1
    assert references[0][0] == "This is all that there is to say in the book."
    assert len(references[0]) == 7


def test_a_mode_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'steady must be "retry", "report" or None'):
        ReadSettings(steady="yes")


# ---------------------------------------------------------------- what is usual


def of(voice: float) -> Heard:
    found = heard_in(noise(LINES[0], voice), LINES[0])
    assert found is not None
    return found


def test_a_voice_between_two_is_the_one_that_speaks_more() -> None:
    usual = Usual.of([of(1.0), of(9.0), of(1.1), of(9.1), of(1.2), of(0.9), of(9.2)])
    assert usual is not None
    assert usual.strangeness(of(1.0))[Trait.VOICE] < 0.5
    assert usual.strangeness(of(9.0))[Trait.VOICE] > 1


def test_too_little_to_judge() -> None:
    assert Usual.of([of(1.0)] * 4) is None
    assert heard_in(noise("Yes."), "Yes.") is None
    assert heard_in(np.zeros(SAMPLE_RATE * 3, np.float32), LINES[0]) is None
    assert heard_in(noise(LINES[0]), "[uv_break]!") is None


def test_tags_and_pauses_do_not_change_the_pace() -> None:
    plain = of(1.0)
    half = len(sound := noise(LINES[0])) // 2
    paused = np.concatenate([sound[:half], np.zeros(SAMPLE_RATE, np.float32), sound[half:]])
    found = heard_in(paused, f"[speed_5]{LINES[0]}[uv_break]")
    assert found is not None
    assert found.pace == pytest.approx(plain.pace, rel=0.03)


@pytest.mark.slow
def test_a_steady_line_of_a_model_keeps_its_samples() -> None:
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1)
    try:
        plain, steady = (
            heard(chat, ReadSettings(voice="clara", steady=mode, word_times=True), LINES[0])
            for mode in (None, "retry")
        )
    finally:
        chat.unload()
    assert np.array_equal(plain[0].samples, steady[0].samples)
    assert plain[0].words == steady[0].words
