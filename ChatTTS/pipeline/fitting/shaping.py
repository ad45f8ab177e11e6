"""Make speech exactly as long as its time: first by its pauses, then by its tempo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...audio.samples import SAMPLE_RATE, Samples
from ...audio.tempo import Tempo
from ...audio.trim import speech_bounds
from .take_pauses import Pause

MOST_TEMPO = 1.03
"""The most that the tempo is changed by, faster or slower."""

# 5 ms: a cut in the middle of a wave is heard as a click.
_RAMP = SAMPLE_RATE // 200
# A change of the tempo by less is left to the silence at the end.
_SAME_TEMPO = 5e-4
# Silence at an end beyond this is too much: 12 ms, since it is measured in steps of 10 ms.
_QUIET = SAMPLE_RATE * 12 // 1000


@dataclass(frozen=True)
class Part:
    """An utterance to be shaped. All numbers are samples.

    Attributes:
        samples: float32 (n,), from its first sound to its last.
        pauses: in these samples, in order.
        before: silence that the text puts before it, of a fixed length.
        after: silence after it, likewise.
        border: the pause to the next utterance; ``None`` for the last one.
    """

    samples: Samples
    pauses: tuple[Pause, ...] = ()
    before: int = 0
    after: int = 0
    border: Pause | None = None

    @property
    def all_pauses(self) -> tuple[Pause, ...]:
        """The pauses in it and the one behind it."""
        return self.pauses if self.border is None else (*self.pauses, self.border)

    @property
    def fixed(self) -> int:
        """The silence whose length is the text's."""
        return self.before + self.after

    @property
    def speech(self) -> int:
        """The samples of sound, without pauses."""
        return len(self.samples) - sum(pause.end - pause.start for pause in self.pauses)

    @property
    def usual(self) -> int:
        """Its length as it was spoken."""
        return self.speech + self.fixed + sum(pause.usual for pause in self.all_pauses)

    @property
    def shortest(self) -> int:
        """The shortest length that it can be given."""
        least = sum(pause.least for pause in self.all_pauses)
        return round(self.speech / MOST_TEMPO) + self.fixed + least

    @property
    def longest(self) -> int:
        """The longest length that it can be given."""
        most = sum(pause.most for pause in self.all_pauses)
        return round(self.speech * MOST_TEMPO) + self.fixed + most


@dataclass(frozen=True)
class ShapedPart:
    """An utterance with its silence, and where its samples are now.

    Attributes:
        samples: float32 (n,).
        places: int64 (2, k): samples of the part, in order, and their places in ``samples``.
    """

    samples: Samples
    places: NDArray[np.int64]

    def moved(self, place: int) -> int:
        """Return where a sample of the part is now."""
        return round(float(np.interp(place, *self.places)))


@dataclass(frozen=True)
class Shaped:
    """The speech of a text.

    Attributes:
        parts: its utterances; their samples joined are the whole.
        tempo: factor of the tempo, above 1 for faster.
        pauses: samples by which all pauses together are longer, or shorter if negative.
        silence: samples of silence at the end that neither pauses nor tempo could fill.
    """

    parts: tuple[ShapedPart, ...]
    tempo: float
    pauses: int
    silence: int


def shape(parts: Sequence[Part], target: int) -> Shaped:
    """Return the speech of a text with ``target`` samples.

    What is too long for that is as short as it can be, and what is too short has silence at its
    end.
    """
    shaped = _once(parts, target)
    if shaped.silence > _QUIET or sum(len(part.samples) for part in shaped.parts) > target:
        return shaped
    # Where speech fades, a change of its tempo changes where it is heard to begin and to end.
    lead, tail = _quiet_ends(parts, shaped)
    if not lead and not tail:
        return shaped
    longer = _once(parts, target + lead + tail)
    cropped = _cropped(longer.parts, lead, tail)
    return replace(longer, parts=cropped, silence=max(0, longer.silence - tail))


def _quiet_ends(parts: Sequence[Part], shaped: Shaped) -> tuple[int, int]:
    """Return the samples of silence at the two ends that are too many, beside those of the text."""
    whole = np.concatenate([part.samples for part in shaped.parts])
    sound = whole[parts[0].before : len(whole) - parts[-1].after]
    start, stop = speech_bounds(sound, margin_s=0.0)
    ends = (start, len(sound) - stop) if stop else (0, 0)
    lead, tail = (max(0, end - _RAMP) if end > _QUIET else 0 for end in ends)
    return lead, tail


def _cropped(parts: Sequence[ShapedPart], lead: int, tail: int) -> tuple[ShapedPart, ...]:
    """Return parts without some samples at both ends, with silence of the text kept."""
    found = list(parts)
    first = found[0]
    moved = np.stack([first.places[0], np.maximum(first.places[1] - lead, 0)])
    found[0] = ShapedPart(_ramped(first.samples[lead:]), moved)
    last = found[-1]
    kept = last.samples[: len(last.samples) - tail]
    found[-1] = ShapedPart(_ramped(kept, at_end=True), last.places)
    return tuple(found)


def _once(parts: Sequence[Part], target: int) -> Shaped:
    """Return the speech of a text with ``target`` samples, whatever its ends sound like."""
    pauses = [pause for part in parts for pause in part.all_pauses]
    speech = sum(part.speech for part in parts)
    room = target - sum(part.fixed for part in parts)
    lengths = _spread(
        [(pause.usual, pause.shorter, pause.longer) for pause in pauses], room - speech
    )
    left = max(1, room - sum(lengths))
    tempo = min(max(speech / left, 1 / MOST_TEMPO), MOST_TEMPO)
    if abs(tempo - 1) < _SAME_TEMPO:
        tempo = 1.0
    else:
        bounds = [(n, pause.least, pause.most) for n, pause in zip(lengths, pauses, strict=True)]
        lengths = _spread(bounds, room - round(speech / tempo))
    given = iter(lengths)
    shaped = [
        _shaped(part, [next(given) for _ in part.all_pauses], tempo, is_first=not number)
        for number, part in enumerate(parts)
    ]
    silence = target - sum(len(part.samples) for part in shaped)
    last = shaped[-1]
    # A few samples of rounding are cut from the fade at the end.
    if -2 * _RAMP < silence < 0 and len(last.samples) > 4 * _RAMP:
        shaped[-1] = ShapedPart(_ramped(last.samples[:silence], at_end=True), last.places)
        silence = 0
    elif silence > 0:
        shaped[-1] = ShapedPart(np.pad(last.samples, (0, silence)), last.places)
    changed = sum(lengths) - sum(pause.usual for pause in pauses)
    return Shaped(tuple(shaped), tempo, changed, max(0, silence))


def _spread(pauses: Sequence[tuple[int, int, int]], total: int) -> list[int]:
    """Return lengths of pauses with a sum of ``total``, or as near as their bounds allow.

    Each takes a share by its room.

    Args:
        pauses: for each its length, its least and its most.
    """
    change = total - sum(length for length, _, _ in pauses)
    rooms = [most - length if change > 0 else length - least for length, least, most in pauses]
    whole = sum(rooms)
    share = 0.0 if not whole else min(1.0, abs(change) / whole)
    moved = np.floor(np.array(rooms) * share).astype(int).tolist()
    sign = 1 if change > 0 else -1
    return [length + sign * by for (length, _, _), by in zip(pauses, moved, strict=True)]


def _shaped(part: Part, lengths: Sequence[int], tempo: float, *, is_first: bool) -> ShapedPart:
    """Return a part with the given lengths of its pauses."""
    sound: list[Samples] = [np.zeros(part.before, dtype=np.float32)]
    places = [(0, part.before)]
    position = part.before
    pieces = list(_pieces(part))
    for (start, end, is_pause), number in zip(pieces, _numbers(pieces), strict=True):
        own = part.samples[start:end]
        changed = _with_length(own, lengths[number]) if is_pause else _at_tempo(own, tempo)
        sound.append(changed)
        position += len(changed)
        places.append((end, position))
    border = lengths[-1] if part.border is not None else 0
    sound.append(np.zeros(border + part.after, dtype=np.float32))
    spoken = np.concatenate(sound[1:-1]) if len(sound) > 2 else sound[0][:0]
    whole = np.concatenate([sound[0], _ramped(_ramped(spoken), at_end=True), sound[-1]])
    return ShapedPart(whole, np.array(places, dtype=np.int64).T)


def _pieces(part: Part) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of speech and pauses by turns, and which of the two it is."""
    borders = [0, *(place for pause in part.pauses for place in (pause.start, pause.end))]
    for number, (start, end) in enumerate(pairwise([*borders, len(part.samples)])):
        yield start, end, number % 2 == 1


def _numbers(pieces: Sequence[tuple[int, int, bool]]) -> Iterator[int]:
    """Yield for each piece the number of the pause that it is, or of the next one."""
    for place in range(len(pieces)):
        yield place // 2


def _with_length(silence: Samples, length: int) -> Samples:
    """Return a pause with another length: its two ends, and silence between them."""
    if length == len(silence):
        return silence
    kept = min(length, len(silence)) // 2
    first, last = silence[:kept], silence[len(silence) - kept :]
    middle = np.zeros(length - 2 * kept, dtype=np.float32)
    return np.concatenate([_ramped(first, at_end=True), middle, _ramped(last)])


def _at_tempo(samples: Samples, tempo: float) -> Samples:
    if tempo == 1.0 or not len(samples):
        return samples
    stretch = Tempo(tempo, SAMPLE_RATE)
    return np.concatenate([stretch.push(samples), stretch.finish()])


def _ramped(samples: Samples, *, at_end: bool = False) -> Samples:
    """Return a copy that rises from silence in its first 5 ms, or falls to it in its last."""
    result: Samples = samples.copy()
    length = min(_RAMP, len(result) // 2)
    if length:
        ramp = (np.arange(length) / length).astype(np.float32)
        if at_end:
            result[-length:] *= ramp[::-1]
        else:
            result[:length] *= ramp
    return result
