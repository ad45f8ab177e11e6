"""Scores of attention heads, and the choice among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.pipeline.alignment import head_scores
from ChatTTS.pipeline.alignment.head_scores import Score, ScoredHead, choose_heads, score_heads
from ChatTTS.pipeline.alignment.word_aligner import combine_heads

COLUMNS = 12
FRAMES = 3 * COLUMNS


def head(places: NDArray[np.int64], weight: float = 0.8) -> NDArray[np.float32]:
    """Attention that looks at one column in each frame, and a little at all others."""
    frames = np.full((len(places), COLUMNS), 0.1 / COLUMNS, dtype=np.float32)
    frames[np.arange(len(places)), places] = weight
    return frames


def follower(weight: float = 0.8) -> NDArray[np.float32]:
    return head(np.arange(FRAMES) // 3, weight)


def noise(seed: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).dirichlet(np.full(COLUMNS, 0.3), size=FRAMES)
    return (drawn * 0.3).astype(np.float32)


def plain_score(weights: NDArray[np.floating[Any]]) -> Score:
    """The score as its definition says it, frame by frame."""
    forward = back = sharpness = 0.0
    most = max(sum(frame[:-1]) for frame in weights.astype(np.float64))
    before = None
    peaks = set()
    for frame in weights.astype(np.float64)[:, :-1]:
        place = sum(column * weight for column, weight in enumerate(frame)) / sum(frame)
        sharpness += max(frame)
        if sum(frame) <= most / 5:
            continue
        if before is not None:
            forward += max(0.0, place - before)
            back += max(0.0, before - place)
        before = place
        peaks.add(int(np.argmax(frame)))
    monotone = max(0.0, (forward - back) / (forward + back))
    return Score(monotone, len(peaks) / (weights.shape[1] - 1), sharpness / len(weights))


def numbers(score: Score) -> list[float]:
    return [score.monotone, score.coverage, score.sharpness, score.total]


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_the_definition(seed: int) -> None:
    first, second = noise(seed), noise(seed + 10)[:20]
    [found] = score_heads([first[:, None], second[:, None]])
    expected = np.mean([numbers(plain_score(each))[:3] for each in (first, second)], axis=0)
    assert numbers(found)[:3] == pytest.approx(expected.tolist())
    assert found.total == pytest.approx(np.prod(expected) ** (1 / 3))


def test_a_head_that_follows_is_better_than_any_other() -> None:
    there = np.arange(FRAMES) // 3
    heads = {
        "follows": follower(),
        "goes back": head(there[::-1].copy()),
        "stays": head(np.zeros(FRAMES, dtype=np.int64)),
        "looks at half of the text": head(there // 2),
        "is blurred": follower(0.05),
        "looks anywhere": noise(1),
        "looks at the end alone": head(np.full(FRAMES, COLUMNS - 1)),
    }
    scores = score_heads([np.stack(list(heads.values()), axis=1)])
    totals = dict(zip(heads, (score.total for score in scores), strict=True))
    assert max(totals, key=lambda name: totals[name]) == "follows"
    assert totals["follows"] > 0.85
    assert totals["follows"] > 1.1 * sorted(totals.values())[-2], totals
    assert totals["goes back"] == 0
    assert all(0 <= value <= 1 for score in scores for value in numbers(score))


def test_attention_that_is_nowhere_has_no_score() -> None:
    silent = np.zeros((5, 2, COLUMNS), dtype=np.float32)
    empty = np.zeros((0, 2, COLUMNS), dtype=np.float32)
    for attention in (silent, empty, silent[:, :, :1]):
        assert [score.total for score in score_heads([attention])] == [0.0, 0.0]


def chosen(*heads: NDArray[np.float32]) -> head_scores.HeadChoice:
    attention = np.stack(heads, axis=1)
    scores = score_heads([attention])
    candidates = [ScoredHead(0, number, score) for number, score in enumerate(scores)]
    return choose_heads(candidates, [attention])


def test_heads_are_added_while_they_help() -> None:
    there = np.arange(FRAMES) // 3
    # Each follows one half of the text and looks nowhere during the other.
    early, late = head(there), head(there)
    early[FRAMES // 2 :] = late[: FRAMES // 2] = 1e-4
    found = chosen(noise(2), early, noise(3), late)
    assert sorted(found.heads) == [(0, 1), (0, 3)]
    assert found.joint.total > 1.3 * found.best[0].score.total
    assert [each.score.total for each in found.best] == sorted(
        (each.score.total for each in found.best), reverse=True
    )


def test_a_head_that_adds_nothing_is_left_out() -> None:
    assert chosen(noise(0), follower(), follower(), noise(1)).heads == ((0, 1),)


def test_no_more_heads_are_chosen_than_help(monkeypatch: pytest.MonkeyPatch) -> None:
    there = np.arange(FRAMES) // 3
    parts = []
    for column in range(COLUMNS - 1):
        part = np.full((FRAMES, COLUMNS), 1e-4, dtype=np.float32)
        part[there == column, column] = 0.8
        parts.append(part)
    assert len(chosen(*parts).heads) == head_scores.MAX_CHOSEN
    monkeypatch.setattr(head_scores, "MAX_CHOSEN", 3)
    assert len(chosen(*parts).heads) == 3


def test_the_joint_score_is_that_of_the_attention_that_words_are_found_from() -> None:
    heads = (follower(0.5), noise(5), follower(0.3))
    found = chosen(*heads)
    attention = np.stack([heads[number] for _, number in found.heads], axis=1)
    together = np.stack([combine_heads(frame.astype(np.float64)) for frame in attention])
    assert numbers(found.joint) == pytest.approx(numbers(plain_score(together)), abs=1e-6)


def test_the_verdict_says_how_good_the_choice_is() -> None:
    words = [chosen(each).verdict.split(":")[0] for each in (follower(), follower(0.2), noise(0))]
    assert words == ["good", "fair", "poor"]
    assert [chosen(each).is_poor for each in (follower(), follower(0.2), noise(0))] == [0, 0, 1]
