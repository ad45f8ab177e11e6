"""Takes as the language model learns them: tags, pauses, laughs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recipes.voice.arrangement import (
    LAUGH,
    LBREAK,
    LEAD,
    PAUSES,
    TAIL,
    UV_BREAK,
    TagShares,
    Utterance,
    arranged,
    frame_starts,
    symbols_of,
)
from recipes.voice.counter_rng import CounterRng
from recipes.voice.laughs import LAUGH_PHONEMES
from recipes.voice.styles import VOICES
from recipes.voice.takes import TEACHER_FRAME, Line, Take
from recipes.voice.units import FRAME_SAMPLES, SAMPLE_RATE

NONE = TagShares(inner=0, replacing=0, border=0, before=0, after=0)


def take(phonemes: str, quiet: str = ",.?! ", frames: int = 4) -> Take:
    """Return a take in which all but the symbols in ``quiet`` is a tone."""
    lengths = np.array([12, *(frames for _ in phonemes), 10], np.int32)
    tone = 0.2 * np.sin(np.arange(lengths.sum() * TEACHER_FRAME) / 10)
    ends = np.cumsum(lengths) * TEACHER_FRAME
    for symbol, begin, end in zip(("", *phonemes, ""), (0, *ends), ends, strict=False):
        if symbol in quiet or not symbol:
            tone[begin:end] = 0
    samples = tone.astype(np.float32)
    return Take(
        Line("", "en", phonemes), np.eye(len(VOICES), dtype=np.float32)[0], 1, samples, lengths
    )


def silence_at(utterance: Utterance, symbol: int) -> float:
    """Return the seconds of silence around where a symbol begins."""
    loud = np.flatnonzero(np.abs(utterance.samples) > 1e-4)
    at = int(utterance.starts[symbol]) + 1
    before, behind = loud[loud < at], loud[loud >= at]
    first = before[-1] if len(before) else 0
    last = behind[0] if len(behind) else len(utterance.samples)
    return float(last - first) / SAMPLE_RATE


def test_without_tags_a_take_loses_only_the_silence_around_it() -> None:
    spoken = take("ab, ba.")
    found = arranged(spoken, CounterRng(1, 0), NONE)
    assert found.symbols == tuple("ab, ba.")
    assert len(found.samples) % FRAME_SAMPLES == 0
    loud = np.flatnonzero(np.abs(found.samples) > 1e-4)
    assert LEAD - 0.01 <= loud[0] / SAMPLE_RATE <= LEAD + FRAME_SAMPLES / SAMPLE_RATE + 0.01
    mark = 4 * TEACHER_FRAME / SAMPLE_RATE
    after = (len(found.samples) - loud[-1]) / SAMPLE_RATE
    assert mark + TAIL - 0.01 <= after <= mark + TAIL + 0.03
    # Nothing between the symbols is cut: they are as far apart as the teacher said.
    assert np.diff(found.starts).tolist() == [4 * TEACHER_FRAME] * 6


@pytest.mark.parametrize("replacing", [0.0, 1.0])
def test_a_comma_becomes_a_break_or_is_followed_by_one(replacing: float) -> None:
    found = arranged(take("ab, ba."), CounterRng(1, 0), replace(NONE, inner=1, replacing=replacing))
    comma = () if replacing else (",",)
    assert found.symbols == ("a", "b", *comma, UV_BREAK, "b", "a", ".")
    least, most = PAUSES[UV_BREAK]
    assert least - 0.02 <= silence_at(found, found.symbols.index(UV_BREAK)) <= most + 0.02


def test_breaks_stand_between_sentences_and_at_both_ends() -> None:
    shares = TagShares(inner=0, replacing=0, border=1, before=1, after=1)
    seen = set()
    for place in range(20):
        found = arranged(take("ab. ba."), CounterRng(1, place), shares)
        tags = [symbol for symbol in found.symbols if len(symbol) > 1]
        assert "".join(s for s in found.symbols if len(s) == 1) == "ab.ba."
        assert [found.symbols.index(tags[0]), len(tags)] == [0, 3]
        assert found.symbols[-1] == tags[-1]
        assert (np.diff(found.starts) >= 0).all()
        for at in np.flatnonzero([len(symbol) > 1 for symbol in found.symbols])[:2]:
            assert silence_at(found, at) >= PAUSES[found.symbols[at]][0] - 0.02
        seen.update(tags)
    assert seen == {UV_BREAK, LBREAK}


def test_a_pause_that_is_long_enough_stays() -> None:
    # 40 frames of the teacher are a second, more than any tag asks for.
    spoken = take("ab,ba.", frames=40)
    found = arranged(spoken, CounterRng(1, 0), replace(NONE, inner=1, replacing=1))
    plain = arranged(spoken, CounterRng(1, 0), NONE)
    assert abs(len(found.samples) - len(plain.samples)) <= FRAME_SAMPLES


def test_a_laugh_is_one_symbol_without_spaces_beside_it() -> None:
    spoken = take(f"ab. {LAUGH_PHONEMES} ba.", quiet=". !")
    found = arranged(spoken, CounterRng(1, 0), NONE)
    assert found.symbols == ("a", "b", ".", LAUGH, "b", "a", ".")
    at = found.symbols.index(LAUGH)
    length = found.starts[at + 1] - found.starts[at]
    spoken_length = 4 * TEACHER_FRAME * len(LAUGH_PHONEMES)
    assert 0.4 * spoken_length < length < spoken_length  # it is faster than speech
    # It falls in loudness.
    laugh = np.abs(found.samples[found.starts[at] : found.starts[at + 1]])
    loud = np.flatnonzero(laugh > 0.02)
    first, last = np.array_split(laugh[loud[0] : loud[-1]], 5)[::4]
    assert last.max() < 0.7 * first.max()


def test_starts_as_frames_stay_within_the_speech() -> None:
    found = arranged(take("ab, ba."), CounterRng(1, 0), NONE)
    starts = frame_starts(found)
    assert starts.dtype == np.int32
    assert starts[-1] < found.frames
    assert starts.tolist() == [at // FRAME_SAMPLES for at in found.starts]


@pytest.mark.smoke
def test_a_line_of_symbols_is_read_back() -> None:
    assert symbols_of(f"a{UV_BREAK} b{LAUGH}") == ("a", UV_BREAK, " ", "b", LAUGH)
