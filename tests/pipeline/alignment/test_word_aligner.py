"""The best monotone path, and the words that it gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.pipeline.alignment import word_aligner
from ChatTTS.pipeline.alignment.faults import FaultFinder
from ChatTTS.pipeline.alignment.word_aligner import (
    LAG,
    MonotonePath,
    WordAligner,
    WordFrames,
    combine_heads,
)
from ChatTTS.text.alignment import TextColumns
from ChatTTS.text.spoken_words import CallerWord

from ...support.plain_aligner import PlainAligner, plain_combine_heads


def columns(*owners: int) -> TextColumns:
    words = tuple(CallerWord(str(i), i, i + 1) for i in range(max(owners, default=-1) + 1))
    return TextColumns(words, np.array(owners, dtype=np.int64))


def attention(places: list[int], width: int, heads: int = 2) -> NDArray[np.float32]:
    """Attention that is clear, on one place in each frame."""
    frames = np.full((len(places), heads, width), 0.01, dtype=np.float32)
    frames[np.arange(len(places)), :, places] = 0.9
    return frames


def slow_path(weights: NDArray[np.float64]) -> list[int]:
    """The best path of all paths."""
    frames, width = weights.shape
    best, found = -np.inf, None
    for path in itertools.combinations_with_replacement(range(width), frames):
        skipped = path[0] + sum(max(0, b - a - 1) for a, b in itertools.pairwise(path))
        score = sum(np.log(weights[i, place]) for i, place in enumerate(path)) - skipped
        if score > best:
            best, found = score, path
    assert found is not None
    return list(found)


def test_the_clearest_heads_count_most() -> None:
    clear, blurred = [0.0, 0.9, 0.1], [0.3, 0.3, 0.3]
    combined = combine_heads(np.array([clear, blurred]))
    assert combined == pytest.approx(
        [(0.9 * a + 0.3 * b) / 1.2 for a, b in zip(clear, blurred, strict=True)], abs=1e-3
    )
    frames = np.random.default_rng(0).random((7, 5, 9))
    together = combine_heads(frames)
    assert all(
        np.array_equal(combine_heads(one), two) for one, two in zip(frames, together, strict=True)
    )


@pytest.mark.parametrize("heads", [1, 2, 7, 8, 9, 20])
@pytest.mark.parametrize("width", [1, 2, 9, 40])
def test_many_frames_are_combined_like_each_alone(heads: int, width: int) -> None:
    frames = np.random.default_rng(heads).random((5, heads, width))
    expected = [plain_combine_heads(frame) for frame in frames]
    assert np.array_equal(combine_heads(frames), expected)


def random_text(rng: np.random.Generator) -> TextColumns:
    """Words of one to nine positions, with marks between and within them."""
    words = int(rng.integers(0, 15))
    owners = [
        -1 if rng.random() < 0.2 else word
        for word in range(words)
        for _ in range(int(rng.integers(1, 10)))
    ]
    texts = tuple(CallerWord(str(i), i, i + 1) for i in range(words))
    return TextColumns(texts, np.array([*owners, -1], dtype=np.int64))


def random_attention(rng: np.random.Generator, width: int) -> NDArray[np.float32]:
    """Attention that wanders on or looks anywhere; half of it has many paths that are equal."""
    frames, heads = int(rng.integers(0, 160)), int(rng.integers(1, 11))
    noise = rng.dirichlet(np.full(width + 3, 0.3), size=(frames, heads)).astype(np.float32)
    places = np.linspace(3, width + 2, frames).round().astype(int)
    noise[np.arange(frames), :, places] += rng.choice([0.0, 0.2, 2.0])
    return noise if rng.random() < 0.5 else np.round(noise)


@pytest.mark.parametrize("seed", range(40))
def test_the_words_are_those_of_the_plain_aligner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = random_text(rng)
    frames = random_attention(rng, len(text.owners))
    size = int(rng.integers(1, 30))
    plain_finder, finder = FaultFinder(text), FaultFinder(text)
    plain, aligner = PlainAligner(text, plain_finder), WordAligner(text, finder)
    for i in range(0, len(frames), size):
        part = frames[i : i + size]
        assert aligner.push(part) == plain.push(part)  # to the last bit of the confidence
    assert aligner.flush() == plain.flush()
    assert vars(finder).keys() == vars(plain_finder).keys()
    for name, value in vars(finder).items():
        assert np.array_equal(value, vars(plain_finder)[name]), name


@pytest.mark.parametrize("seed", range(6))
def test_the_path_is_the_best_of_all(seed: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.full(5, 0.5), size=6) * 0.99 + 0.002
    path = MonotonePath(5)
    assert path.push(weights) == []
    assert path.flush() == slow_path(weights)


def test_a_decided_path_is_never_revised() -> None:
    rng = np.random.default_rng(0)
    path = MonotonePath(30)
    frames = rng.dirichlet(np.full(30, 0.1), size=200)
    decided = [path.push(frames[i : i + 1]) for i in range(200)]
    assert [len(places) for places in decided] == [0] * LAG + [1] * (200 - LAG)
    whole = [*itertools.chain(*decided), *path.flush()]
    assert len(whole) == 200
    assert whole == sorted(whole)


def test_words_last_from_their_first_frame_to_their_last() -> None:
    aligner = WordAligner(columns(0, 0, 1, -1, 2, -1))
    frames = attention([0] * 3 + [1] * 4 + [2] * 5 + [3] * 6 + [4] * 2 + [5], 6)
    assert aligner.push(frames) == []
    found = aligner.flush()
    assert [(w.word, w.start, w.end) for w in found] == [(0, 0, 7), (1, 7, 12), (2, 18, 20)]
    assert all(0.89 < w.confidence < 0.95 for w in found)


def test_a_mark_within_a_word_does_not_end_it() -> None:
    aligner = WordAligner(columns(0, -1, 0, 1, -1))
    found = [*aligner.push(attention([0, 0, 1, 2, 3, 4], 5)), *aligner.flush()]
    assert [(w.word, w.start, w.end) for w in found] == [(0, 0, 4), (1, 4, 5)]


def test_a_word_that_is_not_spoken_takes_no_time() -> None:
    aligner = WordAligner(columns(0, 1, 2, 3, -1))
    found = [*aligner.push(attention([0] * 5 + [2] * 5, 5)), *aligner.flush()]
    assert [(w.start, w.end) for w in found] == [(0, 5), (5, 5), (5, 10), (10, 10)]
    assert [w.confidence > 0 for w in found] == [True, False, True, False]


def test_a_word_is_final_a_stated_number_of_frames_later() -> None:
    aligner = WordAligner(columns(0, 1, -1))
    frames = attention([0] * 10 + [1] * 60, 3)
    when = [len(aligner.push(frames[i : i + 1])) for i in range(70)]
    assert when.index(1) == 10 + LAG
    assert sum(when) == 1


@pytest.mark.parametrize("size", [1, 3, 17, 400])
def test_words_do_not_depend_on_how_frames_come(size: int) -> None:
    rng = np.random.default_rng(3)
    text = columns(*np.repeat(np.arange(12), 3).tolist(), -1)
    frames = rng.dirichlet(np.full(60, 0.2), size=(400, 4)).astype(np.float32)

    def found(step: int) -> list[WordFrames]:
        aligner = WordAligner(text)
        parts = [aligner.push(frames[i : i + step]) for i in range(0, 400, step)]
        return [*itertools.chain(*parts), *aligner.flush()]

    words = found(size)
    assert words == found(2)
    assert [word.word for word in words] == list(range(12))
    assert word_aligner.LAG < 32
