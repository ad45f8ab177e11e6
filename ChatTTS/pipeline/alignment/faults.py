"""Faults of an utterance's speech, seen in the attention that its frames pay to the text.

A frame speaks one position of the text, its place on the path of ``word_aligner.py``. Words that
no frame looks at were skipped. Frames that look far from their place say a word again, or out of
its order. A place that lasts too long is sound without words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ...text.alignment import TextColumns


class FaultKind(str, Enum):
    """A kind of fault.

    Members:
        SKIPPED: words were left out, and later ones were spoken.
        REPEATED: words were said again, or out of their order.
        TAIL: sound goes on after the last word.
        CUT: the speech stops before the last word.
        WORDLESS: sound without words, or a word that is held too long.
    """

    SKIPPED = "skipped"
    REPEATED = "repeated"
    TAIL = "tail"
    CUT = "cut"
    WORDLESS = "wordless"


@dataclass(frozen=True)
class Limits:
    """The border between good speech and faults. ``docs/word-times.md`` has its measurement.

    Attributes:
        min_heard: attention on a word in all frames together, for each of its positions; a word
            with less was not spoken.
        max_left_out: positions in a row that the path may leave out.
        min_end: frames behind the last word; with fewer it was not spoken to its end.
        max_away: frames in a row that may look at another position than their place and its
            neighbours.
        max_tail: frames that may speak one position behind the last word, if it is no control tag.
        max_held: frames that may speak one position of a word.
        max_blind: frames in a row that may pay less than half of their attention to the text.
    """

    min_heard: float = 0.6
    max_left_out: int = 2
    min_end: int = 5
    max_away: int = 5
    max_tail: int = 32
    max_held: int = 48
    max_blind: int = 12


@dataclass(frozen=True)
class FrameFault:
    """A fault.

    Attributes:
        first, past: its words, from the one to before the other; equal where it has none, and then
            it comes before that word.
        start, end: its frames, likewise; equal for words that were not spoken.
    """

    kind: FaultKind
    first: int
    past: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of its words, at least 1: by this, attempts are compared."""
        return max(1, self.past - self.first)


class FaultFinder:
    """Collects what the frames of an utterance look at.

    Args:
        text: the text positions of the utterance.
    """

    def __init__(self, text: TextColumns) -> None:
        self._owners, self._tags = text.owners, text.tags
        self._count = len(text.words)
        self._last = int(text.owners.max(initial=-1))
        self._heard = np.zeros(len(text.owners))
        self._path: list[int] = []
        self._looks: list[int] = []  # for each frame, the position with most of its attention
        self._is_away: list[bool] = []
        self._is_blind: list[bool] = []
        # What ``new_leaps`` has seen: a number of frames, and the words that it returned.
        self._seen = 0
        self._told = np.zeros(self._count, dtype=np.bool_)

    def push(self, weights: NDArray[np.float64], position: int) -> None:
        """Take the next frame.

        Args:
            weights: its attention, [columns].
            position: the one that it speaks, on the path.
        """
        look = int(weights.argmax())
        self._heard += weights
        self._path.append(position)
        self._looks.append(look)
        self._is_away.append(abs(look - position) > 1)
        self._is_blind.append(float(weights.sum()) < 0.5)

    def new_leaps(self, limits: Limits) -> list[FrameFault]:
        """Return the words that the path leaves out since the last call, in order.

        It never goes back to them. So these are the first of all faults to be known, and each of
        them is among :meth:`faults`.
        """
        found = list(self._leaps(limits, self._told, self._seen))
        self._seen = len(self._path)
        return found

    def faults(self, limits: Limits) -> list[FrameFault]:
        """Return the faults of the frames so far as of a whole utterance, in order."""
        if not self._count or not self._path:
            return []
        found = [
            *self._left_out(limits),
            *self._repeated(limits),
            *self._held(limits),
            *self._blind(limits),
        ]
        return sorted(found, key=lambda fault: (fault.start, fault.end, fault.first))

    def _left_out(self, limits: Limits) -> Iterator[FrameFault]:
        """Yield the runs of words that were skipped, or cut off at the end."""
        if self._last < 0:
            return
        leapt = np.zeros(self._count, dtype=np.bool_)
        yield from self._leaps(limits, leapt, 0)
        known = self._owners >= 0
        sizes = np.bincount(self._owners[known], minlength=self._count)
        heard = np.bincount(self._owners[known], self._heard[known], self._count)
        # A word that the text given to the model does not have is no fault: its size is 0.
        absent = heard < limits.min_heard * sizes
        path = np.array(self._path)
        behind = np.flatnonzero(self._owners == self._last).max()
        absent[self._last] |= np.count_nonzero(path > behind) < limits.min_end
        for first, past in _runs((absent & ~leapt).tolist()):
            end = np.flatnonzero(self._owners == past - 1).max()
            yield self._gone(first, past, int(np.searchsorted(path, end, side="right")))

    def _leaps(self, limits: Limits, leapt: NDArray[np.bool_], start: int) -> Iterator[FrameFault]:
        """Yield the runs of words of which the path leaves out too many positions.

        Args:
            leapt: whether each word was left out before; the new ones are added.
            start: the frame to begin with.
        """
        for frame in range(start, len(self._path)):
            before, position = self._path[frame - 1] if frame else -1, self._path[frame]
            if position - before - 1 <= limits.max_left_out:
                continue
            fresh = np.zeros(self._count, dtype=np.bool_)
            owners = self._owners[before + 1 : position]
            fresh[owners[owners >= 0]] = True
            fresh &= ~leapt
            leapt |= fresh
            for first, past in _runs(fresh.tolist()):
                yield self._gone(first, past, frame)

    def _gone(self, first: int, past: int, frame: int) -> FrameFault:
        """Return the fault of words that should have been spoken before a frame."""
        kind = FaultKind.CUT if past - 1 == self._last else FaultKind.SKIPPED
        return FrameFault(kind, first, past, frame, frame)

    def _repeated(self, limits: Limits) -> Iterator[FrameFault]:
        for start, end in _runs(self._is_away):
            words = [word for word in self._owners[self._looks[start:end]].tolist() if word >= 0]
            if end - start > limits.max_away and words:
                yield FrameFault(FaultKind.REPEATED, min(words), max(words) + 1, start, end)

    def _held(self, limits: Limits) -> Iterator[FrameFault]:
        """Yield positions that last too long: those of words, and those behind the last word."""
        behind = int(np.flatnonzero(self._owners >= 0).max(initial=-1))
        start = 0
        for end in range(1, len(self._path) + 1):
            position = self._path[start]
            if end < len(self._path) and self._path[end] == position:
                continue
            word = int(self._owners[position])
            may_last = position in self._tags  # such as a laugh
            if position > behind and not may_last and end - start > limits.max_tail:
                yield FrameFault(FaultKind.TAIL, self._count, self._count, start, end)
            elif word >= 0 and end - start > limits.max_held:
                yield FrameFault(FaultKind.WORDLESS, word, word + 1, start, end)
            start = end

    def _blind(self, limits: Limits) -> Iterator[FrameFault]:
        for start, end in _runs(self._is_blind):
            if end - start > limits.max_blind:
                later = self._owners[self._path[start] :]
                word = int(next((owner for owner in later if owner >= 0), self._count))
                yield FrameFault(FaultKind.WORDLESS, word, word, start, end)


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of true values."""
    start = 0
    for index, flag in enumerate([*flags, False]):
        if not flag:
            if index > start:
                yield start, index
            start = index + 1
