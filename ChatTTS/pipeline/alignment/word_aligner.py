"""From the attention of a few heads to the frames in which each word is spoken.

Each frame speaks one position of the text, and the positions never go back. The path is the best
one by dynamic programming (Viterbi), found while frames come: the position of a frame is decided
:data:`LAG` frames later and never revised.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...text.alignment import TextColumns
from .faults import FaultFinder

# Frames after which the position of a frame is decided: about half a second.
LAG = 24
# Logarithms of less attention than this would let a single frame decide the path.
_LEAST = 1e-4
# The cost of each position that the path leaves out, as a difference of log attention.
_SKIP = 1.0


@dataclass(frozen=True)
class WordFrames:
    """The frames of a word.

    Attributes:
        word: its index among the caller's words of the utterance.
        start, end: its first frame, and the one after its last. They are equal for a word that no
            frame speaks.
        confidence: the mean of its frames' attention on its own text, from 0 to 1; 0 for a word
            that no frame speaks.
    """

    word: int
    start: int
    end: int
    confidence: float


def combine_heads(attention: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one attention for several heads, [..., columns].

    The clearest heads count most, so that one that looks elsewhere does no harm.

    Args:
        attention: [..., heads, columns].
    """
    share = np.maximum.reduce(attention, axis=-1) + _LEAST
    combined: NDArray[np.float64] = np.add.reduce(attention * share[..., None], axis=-2)
    combined /= np.add.reduce(share, axis=-1)[..., None]
    return combined


class MonotonePath:
    """The best path through the columns of a text; see the module.

    All its arrays are made once: a frame costs a few calls of NumPy and allocates nothing that
    grows with the text.

    Args:
        columns: the number of text positions.
    """

    def __init__(self, columns: int) -> None:
        self._positions = np.arange(columns)
        # The cost of leaving out all positions before each one.
        self._costs: NDArray[np.float64] = _SKIP * self._positions.astype(np.float64)
        # The path begins at the first position, or pays for those that it leaves out.
        self._scores: NDArray[np.float64] = -self._costs
        # For each position, the best path to it: the positions of the undecided frames, a ring.
        self._paths = np.zeros((columns, LAG + 1), dtype=np.int32)
        self._frames = 0
        self._undecided = 0
        # Work space of a frame.
        self._spare_paths = np.zeros_like(self._paths)
        self._lifted = np.zeros(columns)
        self._best = np.zeros(columns)
        self._moved = np.full(columns, -np.inf)
        self._flags = np.zeros(columns, dtype=np.bool_)
        self._sources = np.zeros(columns, dtype=self._positions.dtype)
        self._back = np.zeros(columns, dtype=self._positions.dtype)

    def push(self, weights: NDArray[np.float64]) -> list[int]:
        """Take the attention of the next frames, [frames, columns].

        Returns:
            The positions of the frames that are decided now, each :data:`LAG` frames after it came.
        """
        decided = []
        for gains in np.log(np.maximum(weights, _LEAST)):
            if self._frames:
                self._move()
            self._scores += gains
            self._paths[:, self._frames % (LAG + 1)] = self._positions
            self._frames += 1
            self._undecided += 1
            if self._undecided > LAG:
                decided.append(self._decide())
        return decided

    def flush(self) -> list[int]:
        """Return the positions of all frames that are not decided yet."""
        frames = np.arange(self._frames - self._undecided, self._frames)
        self._undecided = 0
        rest: list[int] = self._paths[self._scores.argmax(), frames % (LAG + 1)].tolist()
        return rest

    def _decide(self) -> int:
        """Return the position of the oldest undecided frame; rule out what would revise it."""
        oldest = self._paths[:, self._frames % (LAG + 1)]
        best = self._scores.argmax()
        decided = oldest[best]
        np.not_equal(oldest, decided, out=self._flags)
        self._scores[self._flags] = -np.inf
        self._scores -= self._scores[best]  # so that long utterances lose no precision
        self._undecided -= 1
        return int(decided)

    def _move(self) -> None:
        """Set for each position the best score of a path to it, and that path."""
        scores, lifted, best, sources = self._scores, self._lifted, self._best, self._sources
        moved, stays, back = self._moved, self._flags, self._back
        # Moving on from position k to j costs _SKIP * (j - k - 1): maximise scores[k] + _SKIP * k.
        np.add(scores, self._costs, out=lifted)
        np.maximum.accumulate(lifted, out=best)
        np.greater_equal(lifted, best, out=stays)
        np.multiply(self._positions, stays, out=sources)
        np.maximum.accumulate(sources[:-1], out=back[1:])
        np.subtract(best[:-1], self._costs[:-1], out=moved[1:])
        np.greater_equal(scores, moved, out=stays)
        np.copyto(back, self._positions, where=stays)
        np.maximum(scores, moved, out=scores)
        # With this mode, NumPy needs no copy of its output.
        np.take(self._paths, back, axis=0, out=self._spare_paths, mode="clip")
        self._paths, self._spare_paths = self._spare_paths, self._paths


class WordAligner:
    """Finds the words of one utterance while its frames come.

    Args:
        text: the text positions of the utterance.
        finder: is given every frame with its position, if the utterance's faults are wanted.
    """

    def __init__(self, text: TextColumns, finder: FaultFinder | None = None) -> None:
        self._finder = finder
        self._owners: list[int] = text.owners.tolist()
        self._columns = [np.flatnonzero(text.owners == word) for word in range(len(text.words))]
        self._count = len(text.words)
        self._path = MonotonePath(len(text.owners))
        # For each position, the first word that it or a later one speaks: those before are over.
        owners = np.where(text.owners < 0, self._count, text.owners)
        self._reached: list[int] = np.minimum.accumulate(owners[::-1])[::-1].tolist()
        self._waiting: deque[NDArray[np.float64]] = deque()  # attention of undecided frames
        self._decided = 0
        self._next = 0  # the first word that is not final, with its frames and their attention
        self._frames: list[int] = []
        self._attention: list[NDArray[np.float64]] = []

    def push(self, attention: NDArray[np.float32]) -> list[WordFrames]:
        """Take new frames; return the words that are final now, in order.

        Args:
            attention: float32 [frames, heads, text ids]; the utterance's are the last ids.
        """
        weights = combine_heads(attention[:, :, -len(self._owners) :].astype(np.float64))
        self._waiting.extend(weights)
        return [word for position in self._path.push(weights) for word in self._decide(position)]

    def flush(self) -> list[WordFrames]:
        """Return the rest of the words: the utterance has ended."""
        found = [word for position in self._path.flush() for word in self._decide(position)]
        return found + self._leave(self._count)

    def _decide(self, position: int) -> list[WordFrames]:
        """Take the position of the next frame; return the words that are over before it."""
        weights, owner = self._waiting.popleft(), self._owners[position]
        if self._finder is not None:
            self._finder.push(weights, position)
        found = self._leave(self._reached[position])
        if owner >= 0:
            self._frames.append(self._decided)
            self._attention.append(weights)
        self._decided += 1
        return found

    def _leave(self, past: int) -> list[WordFrames]:
        """Return the words before ``past`` that were not final yet."""
        found = []
        for word in range(self._next, past):
            start = end = self._decided
            confidence = 0.0
            if self._frames:
                start, end = self._frames[0], self._frames[-1] + 1
                confidence = self._confidence(word)
                self._frames, self._attention = [], []
            found.append(WordFrames(word, start, end, confidence))
        self._next = max(self._next, past)
        return found

    def _confidence(self, word: int) -> float:
        """Return the mean attention of the word's frames on its own text."""
        own = np.take(np.stack(self._attention), self._columns[word], axis=1)
        shares: list[float] = own.sum(axis=1).tolist()
        return sum(shares) / len(shares)
