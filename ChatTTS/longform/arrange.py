"""Make the sound of a line: trim its utterances, ramp their edges, and put pauses between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples
from ..audio.tempo import Tempo
from ..audio.trim import audible_bounds, speech_bounds
from ..pipeline.results import Word
from .line_store import SpokenLine
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
    *,
    cuts_start: bool = False,
    cuts_end: bool = False,
) -> ArrangedLine:
    """Return the sound of a line.

    Args:
        tempo: factor of the tempo.
        room: samples that the sound should not exceed; the tempo rises for it, to ``fastest``
            times ``tempo`` at most.
        cuts_start, cuts_end: whether that end is cut at the sound that is heard, for silence of an
            exact length.
    """
    bounds = list(_bounds(spoken))
    if bounds and cuts_start:
        bounds[0] = _cut(spoken.samples, bounds[0], at_start=True)
    if bounds and cuts_end:
        bounds[-1] = _cut(spoken.samples, bounds[-1], at_start=False)
    silence = [_silence(spoken.parts[number].text, pauses) for number, _, _ in bounds]
    speech = sum(stop - start for _, start, stop in bounds)
    if room is not None and speech:
        left = max(1, room - sum(silence[:-1]))
        tempo *= min(max(1.0, speech / tempo / left), fastest)
    sound: list[Samples] = []
    words: list[Word] = []
    position = before = 0
    for place, ((_, start, stop), after) in enumerate(zip(bounds, silence, strict=True)):
        if sound:
            position += before
            sound.append(np.zeros(before, dtype=np.float32))
        part = ramped(
            at_tempo(spoken.samples[start:stop], tempo),
            rises=place > 0 or not cuts_start,
            falls=place + 1 < len(bounds) or not cuts_end,
        )
        inside = (word for word in spoken.words if _begins_in(word, start, stop, bounds))
        words += (_moved(word, start, position, tempo, len(part)) for word in inside)
        sound.append(part)
        position += len(part)
        before = after
    joined = np.concatenate(sound) if sound else np.zeros(0, dtype=np.float32)
    return ArrangedLine(joined, tuple(words))


def ramped(samples: Samples, *, rises: bool = True, falls: bool = True) -> Samples:
    """Return a copy whose first and last 5 ms rise from and fall to silence, where wanted."""
    result: Samples = samples.copy()
    length = min(RAMP, len(result) // 2)
    if length:
        ramp = (np.arange(length) / length).astype(np.float32)
        if rises:
            result[:length] *= ramp
        if falls:
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


def _cut(samples: Samples, bounds: tuple[int, int, int], *, at_start: bool) -> tuple[int, int, int]:
    """Return the bounds of an utterance with one of them where its sound is heard."""
    number, start, stop = bounds
    first, last = audible_bounds(samples[start:stop])
    if last <= first:
        return bounds
    return (number, start + first, stop) if at_start else (number, start, start + last)


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
