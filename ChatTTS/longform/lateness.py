"""Speech that is longer than its duration, where it is as short as it can be."""

from __future__ import annotations

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples
from .arrange import ArrangedLine, at_tempo
from .settings import Late

# A word that is cut fades within 20 ms.
_FADE = SAMPLE_RATE // 50


def settled(line: ArrangedLine, target: int, late: Late, fastest: float) -> ArrangedLine:
    """Return late speech as the setting wants it.

    Args:
        target: samples of its duration; the speech is longer.
        fastest: the most that its tempo is raised by.
    """
    if late is Late.CUT:
        heard = (word for word in line.words if word.start_sample < target)
        cut = tuple(word.moved(lambda place: min(place, target)) for word in heard)
        return ArrangedLine(_faded(line.samples[:target]), cut)
    if late is Late.TEMPO:
        tempo = min(len(line.samples) / target, fastest)
        samples = at_tempo(line.samples, tempo)
        words = tuple(
            word.moved(lambda place: min(round(place / tempo), len(samples))) for word in line.words
        )
        return ArrangedLine(samples, words)
    return line


def told(length: int, target: int, late: Late, fastest: float) -> str:
    """Return the warning of late speech, without its place."""
    seconds, has = length / SAMPLE_RATE, target / SAMPLE_RATE
    what = {
        Late.SHIFT: "what follows it may begin later",
        Late.OVERLAP: "what follows it begins meanwhile",
        Late.CUT: "its end is cut",
        Late.TEMPO: f"it is spoken {min(length / target, fastest):.2f} times as fast",
    }[late]
    return f"it takes {seconds:.2f} s where it is shortest, and has {has:.2f} s: {what}"


def mixed(samples: Samples, tail: Samples) -> Samples:
    """Return samples with those of an earlier line that go on at their beginning."""
    if not len(tail):
        return samples
    sound = np.zeros(max(len(samples), len(tail)), dtype=np.float32)
    sound[: len(samples)] += samples
    sound[: len(tail)] += tail
    return sound


def _faded(samples: Samples) -> Samples:
    result: Samples = samples.copy()
    length = min(_FADE, len(result))
    result[len(result) - length :] *= np.linspace(1, 0, length, dtype=np.float32)
    return result
