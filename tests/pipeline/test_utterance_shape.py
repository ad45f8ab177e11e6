"""Exact silence at the ends of an utterance, and emphasised words, however the samples come."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.audio.trim import AUDIBLE, audible_bounds
from ChatTTS.pipeline.edges import Edges
from ChatTTS.pipeline.emphasiser import Emphasiser
from ChatTTS.pipeline.results import Word
from ChatTTS.text.emphasis import Emphasis

NOISE = AUDIBLE / 3


def speech(silence: int = 3000, sound: int = 9000, gap: int = 2000) -> Samples:
    """Return noise that is not heard, a sound with a gap in it, and noise again."""
    random = np.random.default_rng(1)
    parts = [(silence, NOISE), (sound, 0.2), (gap, NOISE), (sound, 0.2), (2 * silence, NOISE)]
    samples: Samples = np.concatenate(
        [np.sign(random.standard_normal(size)) * level for size, level in parts]
    ).astype(np.float32)
    return samples


def in_parts(total: int, size: int) -> list[tuple[int, int]]:
    return list(pairwise([*range(0, total, size), total]))


def cut(samples: Samples, before: int | None, after: int | None, size: int) -> Samples:
    edges = Edges(before, after)
    pieces = []
    for start, stop in in_parts(len(samples), size):
        pieces.append(edges.push(samples[start:stop], is_last=stop == len(samples)))
    return np.concatenate(pieces)


@pytest.mark.parametrize("size", [240, 5000, 10**6])
@pytest.mark.parametrize("before", [None, 0, 7200])
@pytest.mark.parametrize("after", [None, 0, 12_000])
def test_the_silence_is_exact(size: int, before: int | None, after: int | None) -> None:
    given = speech()
    result = cut(given, before, after, size)
    first, last = audible_bounds(given)
    start = 0 if before is None else first
    stop = len(given) if after is None else last
    silences = [np.zeros(each or 0, dtype=np.float32) for each in (before, after)]
    assert np.array_equal(result, np.concatenate([silences[0], given[start:stop], silences[1]]))


def test_an_end_that_was_interrupted_is_not_silence() -> None:
    edges = Edges(None, 500)
    first = edges.push(speech(), is_last=False)
    rest = edges.push(np.zeros(0, dtype=np.float32), is_last=True, is_whole=False)
    assert np.array_equal(np.concatenate([first, rest]), speech())


def test_what_is_never_heard_stays() -> None:
    quiet = speech()[:2000]
    assert np.array_equal(cut(quiet, 100, 100, 300)[100:-100], quiet)


def word(text: str, start: int, end: int, character: int) -> Word:
    times = start / SAMPLE_RATE, end / SAMPLE_RATE, start, end
    return Word(text, *times, character, character + len(text), 1.0)


WORDS = [
    word("one", 1000, 6000, 0),
    word("two", 6500, 16_000, 4),
    word("three", 16_000, 24_000, 8),
    word("four", 26_000, 40_000, 14),
]
SOUND = (np.sin(np.arange(44_000) / 24_000 * 2 * np.pi * 160) * 0.1).astype(np.float32)


def changed(level: str | None, characters: tuple[int, int], size: int) -> tuple[Samples, list[int]]:
    """Return the sound with emphasis on some characters, and the places of the words' ends."""
    emphases: Sequence[Emphasis] = () if level is None else (Emphasis(*characters, level),)
    emphasiser = Emphasiser(emphases)
    pieces, told = [], 0
    for start, stop in in_parts(len(SOUND), size):
        # A word is known some time after it ends.
        known = [each for each in WORDS if each.end_sample + 8000 <= stop or stop == len(SOUND)]
        is_last = stop == len(SOUND)
        pieces.append(emphasiser.push(SOUND[start:stop], known[told:], is_last=is_last))
        told = len(known)
    places = [
        emphasiser.output_position(sample)
        for w in WORDS
        for sample in (w.start_sample, w.end_sample)
    ]
    assert None not in places
    return np.concatenate(pieces), [place or 0 for place in places]


def decibels(samples: Samples) -> float:
    return float(20 * np.log10(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))))


@pytest.mark.parametrize(
    ("level", "gain", "duration"),
    [("strong", 4.5, 1.3), ("moderate", 2.5, 1.15), ("reduced", -4.0, 0.85)],
)
def test_a_word_gets_its_weight_and_the_others_stay(
    level: str, gain: float, duration: float
) -> None:
    result, places = changed(level, (4, 7), 10**6)
    starts, ends = places[::2], places[1::2]
    assert (starts[0], ends[0], starts[1]) == (1000, 6000, 6500)
    length = ends[1] - starts[1]
    assert length == pytest.approx(9500 * duration, abs=0.015 * SAMPLE_RATE)
    inside = result[starts[1] + 800 : ends[1] - 800]
    assert decibels(inside) - decibels(SOUND) == pytest.approx(gain, abs=0.2)
    assert np.array_equal(result[:6500], SOUND[:6500])
    assert np.array_equal(result[ends[1] :], SOUND[16_000:])
    assert np.abs(np.diff(result)).max() < 0.02  # no click


@pytest.mark.parametrize("level", ["strong", "reduced"])
@pytest.mark.parametrize("characters", [(0, 3), (4, 13), (14, 18), (0, 18)])
@pytest.mark.parametrize("size", [480, 3001])
def test_parts_give_the_sound_of_the_whole(
    level: str, characters: tuple[int, int], size: int
) -> None:
    whole, places = changed(level, characters, 10**6)
    parted, same = changed(level, characters, size)
    assert np.array_equal(parted, whole)
    assert same == places


def test_without_emphasis_nothing_waits() -> None:
    emphasiser = Emphasiser(())
    assert np.array_equal(emphasiser.push(SOUND[:100], [], is_last=False), SOUND[:100])


def test_no_gain_exceeds_full_scale() -> None:
    emphasiser = Emphasiser((Emphasis(0, 18, "strong"),))
    loud = emphasiser.push(SOUND * 9, WORDS, is_last=True)
    assert np.abs(loud).max() <= 0.98
