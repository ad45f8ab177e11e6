"""Characters share the times of their words, without a gap."""

from __future__ import annotations

import pytest

from ChatTTS.pipeline.results import Word
from ChatTTS.serving.requests.characters import CharacterTimes, TimedCharacter


def word(text: str, first: int, start: float, end: float) -> Word:
    samples = round(start * 24_000), round(end * 24_000)
    return Word(text, start, end, *samples, first, first + len(text), 1.0)


def test_words_and_what_is_between_them() -> None:
    times = CharacterTimes(1.0)
    times.append("Hi, you.")
    known = times.add([word("Hi", 0, 0.5, 1.0)])
    assert known == [TimedCharacter("H", 0.5, 0.75), TimedCharacter("i", 0.75, 1.0)]
    known = times.add([word("you", 4, 1.4, 2.0)])
    assert [c.text for c in known] == [",", " ", "y", "o", "u"]
    assert [c.start for c in known] == pytest.approx([1.0, 1.2, 1.4, 1.6, 1.8])
    assert times.finish(2.5) == [TimedCharacter(".", 2.0, 2.5)]
    assert times.finish(3.0) == []


def test_the_tempo_and_later_text() -> None:
    times = CharacterTimes(2.0)
    times.append("a")
    assert times.add([word("a", 0, 0.0, 1.0)]) == [TimedCharacter("a", 0.0, 0.5)]
    times.append(" b")
    assert times.add([word("b", 2, 2.0, 4.0)]) == [
        TimedCharacter(" ", 0.5, 1.0),
        TimedCharacter("b", 1.0, 2.0),
    ]


def test_time_never_runs_backwards() -> None:
    times = CharacterTimes(1.0)
    times.append("ab")
    times.add([word("a", 0, 0.0, 1.0)])
    assert times.add([word("b", 1, 0.5, 0.8)]) == [TimedCharacter("b", 1.0, 1.0)]
