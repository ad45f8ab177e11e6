"""Scores of attention heads: how well each one, or several together, follow a text.

A head that follows the text moves forward through it while it is spoken, looks at every position,
and looks at one position at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...config import AlignmentHeads
from .word_aligner import combine_heads

# More heads than this cost time in every step, and none of them adds anything.
MAX_CHOSEN = 8
# The least improvement of the joint score for which a head is added: each one costs time.
_GAIN = 0.005
# A frame hardly looks at the text where its attention is less than this share of the head's most.
_LOOKS = 0.2
# Joint scores from which a choice is called good, and fair. The trained heads of an earlier bundled
# voice reached 0.87 together, its other heads 0.16 alone.
_GOOD, _FAIR = 0.6, 0.3


@dataclass(frozen=True)
class Score:
    """A score of heads; each number is from 0 to 1, and 1 is best.

    Attributes:
        monotone: the share of the way of the weighted text position that goes forward, less the
            share that goes back. Frames that hardly look at the text are left out.
        coverage: the share of the text's positions that get the greatest weight of some frame.
        sharpness: the greatest weight of a frame, in the mean.
    """

    monotone: float
    coverage: float
    sharpness: float

    @property
    def total(self) -> float:
        """Return the geometric mean: heads must be good in everything."""
        return float((self.monotone * self.coverage * self.sharpness) ** (1 / 3))


@dataclass(frozen=True)
class ScoredHead:
    """An attention head and its score alone; ``layer`` and ``head`` count from 0."""

    layer: int
    head: int
    score: Score


@dataclass(frozen=True)
class HeadChoice:
    """The attention heads that were chosen to follow the text, and the reason.

    Attributes:
        heads: the chosen pairs of a layer and a head, in the order of the choice.
        joint: the score of the chosen heads together.
        best: the best heads alone, best first.
        file: the file that it is stored in; ``None`` for a choice that is not stored.
    """

    heads: AlignmentHeads
    joint: Score
    best: tuple[ScoredHead, ...]
    file: Path | None = None

    @property
    def is_poor(self) -> bool:
        """Return whether the times of words would not be reliable."""
        return self.joint.total < _FAIR

    @property
    def verdict(self) -> str:
        """Return in plain words how good the choice is."""
        if self.is_poor:
            return "poor: no head follows the text, so the times of words are not reliable"
        if self.joint.total < _GOOD:
            return "fair: the heads follow the text roughly, and so do the times of words"
        return "good: the heads follow the text closely"


def score_heads(attention: Sequence[NDArray[np.float32]]) -> list[Score]:
    """Return the score of each head alone, in the mean of all utterances.

    Args:
        attention: of each utterance over its own text, [frames, heads, columns]. The last column
            is the end of the text.
    """
    heads = attention[0].shape[1]
    return [_mean([_score(each[:, head]) for each in attention]) for head in range(heads)]


def choose_heads(
    candidates: Sequence[ScoredHead], attention: Sequence[NDArray[np.float32]]
) -> HeadChoice:
    """Choose heads greedily: take the best one, then add others while the joint score grows.

    Args:
        candidates: the heads to choose from, at least one.
        attention: of each utterance over its own text, [frames, candidates, columns].
    """
    exact = [each.astype(np.float64) for each in attention]

    def joint(chosen: list[int]) -> Score:
        return _mean([_score(combine_heads(each[:, chosen])) for each in exact])

    chosen: list[int] = []
    best = Score(0, 0, 0)
    while len(chosen) < min(MAX_CHOSEN, len(candidates)):
        left = (index for index in range(len(candidates)) if index not in chosen)
        scores = {index: joint([*chosen, index]) for index in left}
        index = max(scores, key=lambda each: scores[each].total)
        if chosen and scores[index].total <= best.total + _GAIN:
            break
        chosen.append(index)
        best = scores[index]
    return HeadChoice(
        tuple((candidates[index].layer, candidates[index].head) for index in chosen),
        best,
        tuple(sorted(candidates, key=lambda each: each.score.total, reverse=True)),
    )


def _score(weights: NDArray[np.floating]) -> Score:
    """Return the score of weights [frames, columns]."""
    text = weights[:, :-1].astype(np.float64)
    count = text.shape[1]
    if not len(text) or not count:
        return Score(0, 0, 0)
    mass = text.sum(axis=1)
    looks = mass > _LOOKS * mass.max()
    looking = text[looks]
    steps = np.diff(looking @ np.arange(count) / mass[looks])
    way = float(np.abs(steps).sum())
    return Score(
        monotone=max(0.0, float(steps.sum()) / way) if way else 0.0,
        coverage=len(set(looking.argmax(axis=1).tolist())) / count,
        sharpness=float(text.max(axis=1).mean()),
    )


def _mean(scores: Sequence[Score]) -> Score:
    parts = np.mean([(s.monotone, s.coverage, s.sharpness) for s in scores], axis=0)
    return Score(*map(float, parts))
