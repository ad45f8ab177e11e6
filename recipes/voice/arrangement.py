"""Arrangement of takes into what the language model learns: control tags, and no needless silence.

The teacher knows no control tags, so they are put where it pauses anyway. A comma of the teacher
becomes `[uv_break]`, or is followed by it, and its pause is made as long as that tag promises.
Breaks follow sentences in the same way, and stand before the first word and after the last one.
A laugh is what the teacher makes of `LAUGH_PHONEMES`, in the voice of the speaker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .counter_rng import CounterRng
from .laughs import LAUGH_PHONEMES, laughter
from .takes import TEACHER_FRAME, Take
from .units import FRAME_SAMPLES, SAMPLE_RATE

Samples = NDArray[np.float32]

UV_BREAK, LBREAK, LAUGH = "[uv_break]", "[lbreak]", "[laugh]"
# Shortest and longest, in seconds, with the silence that is there already.
PAUSES = {UV_BREAK: (0.25, 0.45), LBREAK: (0.55, 0.8)}
LEAD, TAIL = 0.08, 0.16  # least seconds of silence before the speech, and those after it

_INNER, _FINAL = ",;:—", ".?!…"  # marks within sentences, and at their ends
_WINDOW = 120  # samples over which loudness is averaged, 5 ms
_QUIET = 0.006  # root mean square of what counts as silence; speech has 0.1
_FADE = 96  # samples


@dataclass(frozen=True)
class TagShares:
    """The frequencies of tags.

    Attributes:
        inner: at a mark within a sentence.
        replacing: share of those that stand for the mark instead of behind it.
        border: between two sentences.
        before: before the first word.
        after: after the last mark.
    """

    inner: float = 0.18
    replacing: float = 0.6
    border: float = 0.35
    before: float = 0.04
    after: float = 0.16


@dataclass(frozen=True, eq=False)
class Utterance:
    """Speech, and what the language model reads for it.

    Attributes:
        symbols: phonemes and control tags, in order.
        starts: int64 [len(symbols)], the sample at which each begins; they never decrease.
        samples: float32 [n], mono, 24 kHz; n is a whole number of code frames.
    """

    symbols: tuple[str, ...]
    starts: NDArray[np.int64]
    samples: Samples

    @property
    def frames(self) -> int:
        """The number of code frames."""
        return len(self.samples) // FRAME_SAMPLES


def arranged(take: Take, rng: CounterRng, shares: TagShares = TagShares()) -> Utterance:
    """Return a take with tags; equal arguments give equal bytes.

    Args:
        take: at least one phoneme that is no mark.
        rng: of all choices.
        shares: how often tags come.
    """
    phonemes = take.line.phonemes
    bounds = TEACHER_FRAME * np.cumsum(take.frames, dtype=np.int64)
    # Borders of frames lie elsewhere in each arrangement of a take.
    lead = _samples(LEAD) + rng.below(FRAME_SAMPLES)
    tape = _Tape(take.samples, int(bounds[0]), lead)
    if rng.bernoulli(shares.before):
        tape.tag(rng.pick((UV_BREAK, UV_BREAK, LBREAK)), int(bounds[0]), rng)
    place = 0
    while place < len(phonemes):
        if phonemes.startswith(LAUGH_PHONEMES, place):
            behind = place + len(LAUGH_PHONEMES)
            tape.laugh(int(bounds[place]), int(bounds[behind]))
            place = _after_space(phonemes, behind)
            continue
        mark = phonemes[place]
        if mark not in _INNER + _FINAL:
            if not (mark == " " and phonemes.startswith(LAUGH_PHONEMES, place + 1)):
                tape.symbol(mark, int(bounds[place]))
            place += 1
            continue
        behind = _after_space(phonemes, place + 1)
        tag, replaces = _tag_at(mark, behind == len(phonemes), rng, shares)
        if not replaces:
            tape.symbol(mark, int(bounds[place]))
        if tag:
            tape.pause_between(tag, int(bounds[place]), int(bounds[behind]), rng)
            place = behind
        else:
            place += 1
    return tape.finished(int(bounds[-2]))


def _after_space(phonemes: str, place: int) -> int:
    """Return the place behind a space at ``place``: none stands beside a tag."""
    return place + (phonemes[place : place + 1] == " ")


def _tag_at(mark: str, is_last: bool, rng: CounterRng, shares: TagShares) -> tuple[str, bool]:
    """Return the tag at a mark, or "", and whether it replaces the mark."""
    if is_last:
        return (rng.pick((LBREAK, LBREAK, UV_BREAK)) if rng.bernoulli(shares.after) else ""), False
    if mark in _FINAL:
        return (rng.pick((UV_BREAK, LBREAK)) if rng.bernoulli(shares.border) else ""), False
    if not rng.bernoulli(shares.inner):
        return "", False
    return UV_BREAK, rng.bernoulli(shares.replacing)


class _Tape:
    """Speech that grows; it reads the teacher's samples in order, and adds silence to them.

    Args:
        samples: the teacher's.
        begin: where the first phoneme begins.
        lead: samples that are kept before it.
    """

    def __init__(self, samples: Samples, begin: int, lead: int) -> None:
        self._source = samples
        self._read = max(0, begin - lead)
        self._pieces: list[Samples] = []
        self._length = 0
        self._symbols: list[str] = []
        self._starts: list[int] = []

    def symbol(self, symbol: str, at: int) -> None:
        """Add a symbol that begins at sample ``at`` of the teacher."""
        self._symbols.append(symbol)
        self._starts.append(max(self._length, self._length + at - self._read))

    def tag(self, tag: str, at: int, rng: CounterRng) -> None:
        """Add a tag and its whole pause at sample ``at`` of the teacher."""
        self._take_to(at)
        self.symbol(tag, at)
        self._append(np.zeros(_samples(rng.between(*PAUSES[tag])), np.float32))

    def pause_between(self, tag: str, begin: int, end: int, rng: CounterRng) -> None:
        """Add a tag for the silence within the teacher's samples [begin, end), and lengthen it."""
        first, last = _silence(self._source[begin:end])
        wanted = _samples(rng.between(*PAUSES[tag]))
        self._take_to(begin + (first + last) // 2)
        # The tag's own start is where the silence begins.
        self._symbols.append(tag)
        self._starts.append(max(0, self._length - (last - first) // 2))
        self._append(np.zeros(max(0, wanted - (last - first)), np.float32))

    def laugh(self, begin: int, end: int) -> None:
        """Add a laugh made of the teacher's samples [begin, end)."""
        self._take_to(begin)
        self.symbol(LAUGH, begin)
        self._append(laughter(self._source[begin:end]))
        self._read = end

    def finished(self, end: int) -> Utterance:
        """Return all, where the teacher's last phoneme ends at sample ``end``."""
        first, last = _silence(self._source[end:]) if end < len(self._source) else (0, 0)
        self._take_to(max(self._read, min(end + first + _samples(TAIL), end + last)))
        missing = -self._length % FRAME_SAMPLES
        self._append(np.zeros(missing, np.float32))
        starts = np.maximum.accumulate(np.array(self._starts, np.int64))
        return Utterance(
            tuple(self._symbols),
            starts.clip(0, self._length - FRAME_SAMPLES),
            np.concatenate(self._pieces),
        )

    def _take_to(self, at: int) -> None:
        if at > self._read:
            self._append(self._source[self._read : at])
            self._read = at

    def _append(self, samples: Samples) -> None:
        self._pieces.append(samples)
        self._length += len(samples)


def _silence(samples: Samples) -> tuple[int, int]:
    """Return begin and end of the stretch around the quietest place that counts as silence.

    Where nothing counts as silence, both are that place.
    """
    if len(samples) < _WINDOW:
        return len(samples) // 2, len(samples) // 2
    power = np.cumsum(np.concatenate([[0.0], samples.astype(np.float64) ** 2]))
    loudness = np.sqrt(np.maximum(0.0, power[_WINDOW:] - power[:-_WINDOW]) / _WINDOW)
    is_quiet = loudness < _QUIET
    middle = int(loudness.argmin())
    if not is_quiet[middle]:
        return middle + _WINDOW // 2, middle + _WINDOW // 2
    # Of many equally quiet places the first is the begin of the stretch; look both ways.
    loud = np.flatnonzero(~is_quiet)
    before, behind = loud[loud < middle], loud[loud > middle]
    first = int(before[-1]) + 1 if len(before) else 0
    last = int(behind[0]) if len(behind) else len(is_quiet)
    return first + _WINDOW // 2, last + _WINDOW // 2


def _samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)


def frame_starts(utterance: Utterance) -> NDArray[np.int32]:
    """Return the code frame in which each symbol begins, int32 [symbols]."""
    starts: NDArray[np.int32] = (utterance.starts // FRAME_SAMPLES).astype(np.int32)
    return starts


def joined_symbols(symbols: Sequence[str]) -> str:
    """Return symbols as one line; :func:`symbols_of` reads it."""
    return "".join(symbols)


def symbols_of(line: str) -> tuple[str, ...]:
    """Return the symbols of a line: control tags in brackets, and phonemes of one character."""
    symbols: list[str] = []
    place = 0
    while place < len(line):
        end = line.index("]", place) + 1 if line[place] == "[" else place + 1
        symbols.append(line[place:end])
        place = end
    return tuple(symbols)
