"""Give emphasised words of an utterance more weight, or less, while its samples come.

A voice has no control of single words, so its sound is changed: emphasised words are louder and
slower, reduced ones are softer and faster, at the same pitch. That is what Amazon's Polly documents
for the levels of SSML. The changes lie between the borders of words, and rise and fall smoothly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples
from ..audio.stretch import stretched
from ..audio.trim import audible_bounds
from ..text.emphasis import MODERATE, REDUCED, STRONG, Emphasis
from .results import Word

# The gain never exceeds full scale.
_MOST_PEAK = 0.98
_RAMP = SAMPLE_RATE * 25 // 1000


@dataclass(frozen=True)
class _Weight:
    """The change of a level: decibels, and the factor of the duration."""

    decibels: float
    duration: float


_WEIGHTS = {
    STRONG: _Weight(4.5, 1.3),
    MODERATE: _Weight(2.5, 1.15),
    REDUCED: _Weight(-4.0, 0.85),
}


@dataclass
class _Group:
    """Neighbouring words of one level, in samples of the decoder."""

    level: str
    start: int
    end: int


class Emphasiser:
    """Changes the samples of one utterance.

    Samples wait until the words in them are known. The joined results do not depend on how the
    samples came.

    Args:
        emphases: of the whole text, in its characters.
    """

    def __init__(self, emphases: Sequence[Emphasis]) -> None:
        self._emphases = emphases
        self._end = max((emphasis.end for emphasis in emphases), default=0)
        self._held: Samples = np.zeros(0, dtype=np.float32)
        self._consumed = self._produced = 0  # samples that left _held, and those that they became
        self._open: _Group | None = None
        self._closed: deque[_Group] = deque()
        self._known = 0  # the end of the last word
        self._is_past = not emphases
        # Borders of changed passages: their positions in the decoder's samples, and in the results.
        self._borders = [(0, 0)]

    def push(self, samples: Samples, words: Sequence[Word], *, is_last: bool) -> Samples:
        """Return the samples that are ready, float32 (n,).

        Args:
            samples: the next ones of the decoder.
            words: those that became final since the last call, in samples of the decoder.
            is_last: whether no more samples come.
        """
        for word in words:
            self._add(word)
        if is_last:
            self._close()
        held = np.concatenate([self._held, samples])
        end = self._consumed + len(held)
        pieces: list[Samples] = []
        done = self._consumed
        while self._closed and (is_last or self._closed[0].end <= end):
            group = self._closed.popleft()
            first, last = max(done, min(group.start, end)), min(group.end, end)
            pieces.append(held[done - self._consumed : first - self._consumed])
            pieces.append(
                self._changed(held[first - self._consumed : last - self._consumed], group)
            )
            self._note(first, len(pieces[-2]))
            self._note(last, len(pieces[-1]))
            done = max(first, last)
        safe = self._safe_end(end, is_last=is_last)
        if safe > done:
            pieces.append(held[done - self._consumed : safe - self._consumed])
            self._produced += len(pieces[-1])
            done = safe
        self._held = held[done - self._consumed :]
        self._consumed = done
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.float32)

    def output_position(self, sample: int) -> int | None:
        """Return where a sample of the decoder is in the results; ``None`` while that is open."""
        if sample > self._consumed:
            return None
        index = bisect_right(self._borders, (sample, self._produced)) - 1
        start, given = self._borders[index]
        if index + 1 < len(self._borders):
            following, given_then = self._borders[index + 1]
            share = (sample - start) / max(1, following - start)
            return round(given + share * (given_then - given))
        return given + sample - start

    def _add(self, word: Word) -> None:
        self._known = max(self._known, word.end_sample)
        self._is_past = word.start_character >= self._end
        level = self._level(word)
        if self._open is not None and self._open.level == level:
            self._open.end = max(self._open.end, word.end_sample)
            return
        self._close()
        if level is not None and word.end_sample > word.start_sample:
            self._open = _Group(level, word.start_sample, word.end_sample)

    def _close(self) -> None:
        if self._open is not None:
            self._closed.append(self._open)
            self._open = None

    def _level(self, word: Word) -> str | None:
        first, last = word.start_character, word.end_character
        found = (e.level for e in self._emphases if e.start < last and first < e.end)
        return next(found, None)

    def _safe_end(self, end: int, *, is_last: bool) -> int:
        """Return up to where no later word changes the samples."""
        if is_last:
            return end
        group = self._closed[0] if self._closed else self._open
        if group is not None:
            return min(end, group.start)
        return end if self._is_past else min(end, self._known)

    def _note(self, position: int, produced: int) -> None:
        self._produced += produced
        self._borders.append((position, self._produced))

    def _changed(self, samples: Samples, group: _Group) -> Samples:
        """Return the samples of a group with its weight; silence around the words stays."""
        weight = _WEIGHTS[group.level]
        first, last = audible_bounds(samples)
        if last <= first:
            return samples
        spoken = stretched(samples[first:last], weight.duration)
        gain = 10 ** (weight.decibels / 20)
        peak = float(np.abs(spoken).max())
        if gain > 1:
            gain = max(1.0, min(gain, _MOST_PEAK / peak))
        length = min(_RAMP, len(spoken) // 4)
        envelope = np.ones(len(spoken), dtype=np.float32)
        if length:
            rise = (0.5 - 0.5 * np.cos(np.pi * np.arange(length) / length)).astype(np.float32)
            envelope[:length], envelope[-length:] = rise, rise[::-1]
        loud = spoken * (1 + np.float32(gain - 1) * envelope)
        return np.concatenate([samples[:first], loud, samples[last:]])
