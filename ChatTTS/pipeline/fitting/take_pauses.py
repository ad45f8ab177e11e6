"""The pauses of a take: the silence at marks and between words, which may be longer or shorter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...audio.samples import SAMPLE_RATE, Samples
from ..results import Word

_STEP = SAMPLE_RATE // 200  # 5 ms
# Below the loudest step, in dB: quieter is silence.
_SILENCE = -35.0
# How far the silence of a border may be from it: the times of words are as exact as that.
_NEAR = SAMPLE_RATE // 10
# Seconds of the shortest silence that is a pause, at a mark and between other words. A stop
# consonant is silent for less than the second.
_LEAST_AT_MARK, _LEAST_BETWEEN_WORDS = 0.02, 0.15
_SENTENCE_ENDS = frozenset(".!?…。！？")


def _samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)


@dataclass(frozen=True)
class Pause:
    """A silence in speech, and how long it may be made. All numbers are samples.

    Attributes:
        start, end: its place in the samples of its take; equal for one between two takes.
        usual: its length as it was spoken.
        shorter, longer: to where it changes before the tempo does.
        least, most: to where it changes after that.
    """

    start: int
    end: int
    usual: int
    shorter: int
    longer: int
    least: int
    most: int


def pause_at(start: int, end: int, *, is_sentence_end: bool) -> Pause:
    """Return the pause of a silence inside of a take."""
    usual = end - start
    more = _samples(0.8 if is_sentence_end else 0.4)
    least = min(usual, _samples(0.12 if is_sentence_end else 0.05))
    return Pause(
        start,
        end,
        usual,
        max(least, round(0.75 * usual)),
        usual + min(usual // 2, more // 4),
        least,
        usual + more,
    )


def pause_between(silence: int) -> Pause:
    """Return the pause between two utterances.

    Args:
        silence: samples of silence that the model gave there.
    """
    usual = min(max(silence, _samples(0.2)), _samples(0.5))
    return Pause(0, 0, usual, round(0.7 * usual), round(1.4 * usual), _samples(0.12), _samples(1.0))


def find_pauses(samples: Samples, words: Sequence[Word], text: str) -> tuple[Pause, ...]:
    """Return the pauses of a take, in order.

    Args:
        samples: float32 (n,), from its first sound to its last.
        words: with their places in these samples.
        text: the caller's text, in which the words have their characters.
    """
    silences = _silences(samples)
    found: dict[int, Pause] = {}
    spoken = [word for word in words if word.end_sample > word.start_sample]
    for before, after in pairwise(spoken):
        marks = set(text[before.end_character : after.start_character].strip())
        least = _samples(_LEAST_AT_MARK if marks else _LEAST_BETWEEN_WORDS)
        near = [
            (end - start, start, end)
            for start, end in silences
            if end > before.end_sample - _NEAR and start < after.start_sample + _NEAR
        ]
        length, start, end = max(near, default=(0, 0, 0))
        if length >= least:
            is_end = bool(marks & _SENTENCE_ENDS)
            found[start] = pause_at(start, end, is_sentence_end=is_end)
    return tuple(found[start] for start in sorted(found))


def _silences(samples: Samples) -> list[tuple[int, int]]:
    """Return start and end of each silence that touches neither end of the samples."""
    count = len(samples) // _STEP
    steps = samples[: count * _STEP].reshape(count, _STEP).astype(np.float64)
    levels: NDArray[np.float64] = np.sqrt(np.square(steps).mean(axis=1))
    quiet = levels < levels.max(initial=0.0) * 10 ** (_SILENCE / 20)
    return [
        (start * _STEP, end * _STEP)
        for start, end in _runs(quiet.tolist())
        if start > 0 and end < count
    ]


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    start: int | None = None
    for place, flag in enumerate(flags):
        if flag and start is None:
            start = place
        elif not flag and start is not None:
            yield start, place
            start = None
    if start is not None:
        yield start, len(flags)
