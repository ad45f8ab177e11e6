"""The aligner of ``alignment/word_aligner.py``, written plainly: frame after frame."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from ChatTTS.pipeline.alignment.faults import FaultFinder
from ChatTTS.pipeline.alignment.word_aligner import LAG, WordFrames
from ChatTTS.text.alignment import TextColumns

_LEAST = 1e-4
_SKIP = 1.0


def plain_combine_heads(attention: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one attention for several heads, [..., columns].

    The clearest heads count most, so that one that looks elsewhere does no harm.

    Args:
        attention: [..., heads, columns].
    """
    share = attention.max(axis=-1, keepdims=True) + _LEAST
    combined: NDArray[np.float64] = (attention * share).sum(axis=-2) / share.sum(axis=-2)
    return combined


class PlainPath:
    """The best path through the columns of a text.

    Args:
        columns: the number of text positions.
    """

    def __init__(self, columns: int) -> None:
        self._positions = np.arange(columns)
        # The path begins at the first position, or pays for those that it leaves out.
        self._scores: NDArray[np.float64] = -_SKIP * self._positions.astype(np.float64)
        self._ancestors = np.zeros((0, columns), dtype=np.int64)
        self._has_begun = False

    def push(self, weights: NDArray[np.float64]) -> int | None:
        """Take the attention of the next frame, [columns].

        Returns:
            The position of the frame :data:`LAG` frames before, or ``None`` at the beginning.
        """
        back = self._positions
        if self._has_begun:
            self._scores, back = self._moved()
        self._has_begun = True
        self._scores = self._scores + np.log(np.maximum(weights, _LEAST))
        self._ancestors = np.concatenate([self._ancestors[:, back], self._positions[None]])
        if len(self._ancestors) <= LAG:
            return None
        oldest, self._ancestors = self._ancestors[0], self._ancestors[1:]
        decided = int(oldest[self._scores.argmax()])
        self._scores[oldest != decided] = -np.inf  # other paths would revise it
        self._scores -= self._scores.max()  # so that long utterances lose no precision
        return decided

    def flush(self) -> list[int]:
        """Return the positions of all frames that are not decided yet."""
        if not len(self._ancestors):
            return []
        rest: list[int] = self._ancestors[:, self._scores.argmax()].tolist()
        self._ancestors = self._ancestors[:0]
        return rest

    def _moved(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return for each position the best score of a path to it, and the position before."""
        scores, positions = self._scores, self._positions
        # Moving on from position k to j costs _SKIP * (j - k - 1): maximise scores[k] + _SKIP * k.
        lifted = scores + _SKIP * positions
        best = np.maximum.accumulate(lifted)
        is_new = lifted >= best
        source = np.maximum.accumulate(np.where(is_new, positions, 0))
        moved = np.full_like(scores, -np.inf)
        moved[1:] = best[:-1] - _SKIP * (positions[1:] - 1)
        stays = scores >= moved
        back = positions.copy()
        back[1:] = np.where(stays[1:], positions[1:], source[:-1])
        return np.where(stays, scores, moved), back


class PlainAligner:
    """Finds the words of one utterance while its frames come.

    Args:
        text: the text positions of the utterance.
        finder: is given every frame with its position, if the utterance's faults are wanted.
    """

    def __init__(self, text: TextColumns, finder: FaultFinder | None = None) -> None:
        self._finder = finder
        self._owners = text.owners
        self._count = len(text.words)
        self._path = PlainPath(len(text.owners))
        # For each position, the first word that it or a later one speaks: those before are over.
        owners = np.where(text.owners < 0, self._count, text.owners)
        self._reached: list[int] = np.minimum.accumulate(owners[::-1])[::-1].tolist()
        self._waiting: deque[NDArray[np.float64]] = deque()  # attention of undecided frames
        self._decided = 0
        self._next = 0  # the first word that is not final, with its frames and their attention
        self._frames: list[int] = []
        self._attention: list[float] = []

    def push(self, attention: NDArray[np.float32]) -> list[WordFrames]:
        """Take new frames; return the words that are final now, in order.

        Args:
            attention: float32 [frames, heads, text ids]; the utterance's are the last ids.
        """
        found: list[WordFrames] = []
        for frame in attention[:, :, -len(self._owners) :].astype(np.float64):
            weights = plain_combine_heads(frame)
            self._waiting.append(weights)
            position = self._path.push(weights)
            if position is not None:
                found += self._decide(position)
        return found

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
            self._attention.append(float(weights[self._owners == owner].sum()))
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
                confidence = sum(self._attention) / len(self._attention)
                self._frames, self._attention = [], []
            found.append(WordFrames(word, start, end, confidence))
        self._next = max(self._next, past)
        return found
