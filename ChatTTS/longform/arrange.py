"""Make the sound of a line: trim its utterances, ramp their edges, and put pauses between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples
from ..audio.tempo import Tempo
from ..audio.trim import speech_bounds
from ..pipeline.results import Word
from .kept_lines import SpokenLine
from .settings import Pauses

# 5 ms: a cut in the middle of a wave is heard as a click.
RAMP = SAMPLE_RATE * 5 // 1000
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)）」』\]]*\s*$")
# Tempos that differ by less are not heard.
_SAME_TEMPO = 1e-3


@dataclass(frozen=True)
class ArrangedLine:
    """The sound of one line.

    Attributes:
        samples: float32 (n,) at 24 kHz, without silence at its ends.
        words: their times count from the first sample.
    """

    samples: Samples
    words: tuple[Word, ...] = ()


def arrange(
    spoken: SpokenLine,
    pauses: Pauses,
    tempo: float = 1.0,
    room: int | None = None,
    fastest: float = 1.0,
) -> ArrangedLine:
    """Return the sound of a line.

    Args:
        tempo: factor of the tempo.
        room: samples that the sound should not exceed; the tempo rises for it, to ``fastest``
            times ``tempo`` at most.
    """
    bounds = list(_bounds(spoken))
    silence = [_silence(spoken.parts[number].text, pauses) for number, _, _ in bounds]
    speech = sum(stop - start for _, start, stop in bounds)
    if room is not None and speech:
        left = max(1, room - sum(silence[:-1]))
        tempo *= min(max(1.0, speech / tempo / left), fastest)
    sound: list[Samples] = []
    words: list[Word] = []
    position = before = 0
    for (_, start, stop), after in zip(bounds, silence, strict=True):
        if sound:
            position += before
            sound.append(np.zeros(before, dtype=np.float32))
        part = ramped(at_tempo(spoken.samples[start:stop], tempo))
        inside = (word for word in spoken.words if _begins_in(word, start, stop, bounds))
        words += (_moved(word, start, position, tempo, len(part)) for word in inside)
        sound.append(part)
        position += len(part)
        before = after
    joined = np.concatenate(sound) if sound else np.zeros(0, dtype=np.float32)
    return ArrangedLine(joined, tuple(words))


def ramped(samples: Samples) -> Samples:
    """Return a copy whose first and last 5 ms rise from and fall to silence."""
    result: Samples = samples.copy()
    length = min(RAMP, len(result) // 2)
    if length:
        ramp = (np.arange(length) / length).astype(np.float32)
        result[:length] *= ramp
        result[-length:] *= ramp[::-1]
    return result


def _bounds(spoken: SpokenLine) -> Iterator[tuple[int, int, int]]:
    """Yield the number, first sample and last sample plus 1 of each utterance with speech."""
    position = 0
    for number, part in enumerate(spoken.parts):
        start, stop = speech_bounds(spoken.samples[position : position + part.samples])
        if stop > start:
            yield number, position + start, position + stop
        position += part.samples


def _silence(text: str, pauses: Pauses) -> int:
    is_end = _SENTENCE_END.search(text) is not None
    return round((pauses.sentence if is_end else pauses.phrase) * SAMPLE_RATE)


def at_tempo(samples: Samples, tempo: float) -> Samples:
    """Return ``n`` samples at another tempo: ``round(n / tempo)``."""
    if abs(tempo - 1) < _SAME_TEMPO:
        return samples
    stretch = Tempo(tempo, SAMPLE_RATE)
    return np.concatenate([stretch.push(samples), stretch.finish()])


def _begins_in(word: Word, start: int, stop: int, bounds: list[tuple[int, int, int]]) -> bool:
    """Return whether a word belongs to the part; a word in trimmed silence does to the next one."""
    later = [first for _, first, _ in bounds if first > start]
    earliest = 0 if start == bounds[0][1] else max(last for _, f, last in bounds if f < start)
    return earliest <= word.start_sample and (word.start_sample < stop or not later)


def _moved(word: Word, start: int, position: int, tempo: float, length: int) -> Word:
    """Return a word at its place in the arranged line."""
    first, last = (
        position + min(max(0, round((place - start) / tempo)), length)
        for place in (word.start_sample, word.end_sample)
    )
    return replace(
        word,
        start=first / SAMPLE_RATE,
        end=last / SAMPLE_RATE,
        start_sample=first,
        end_sample=last,
    )
