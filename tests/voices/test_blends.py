"""Blends of voices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ChatTTS.errors import VoiceError
from ChatTTS.voices.blends import MOST_PARTS, blend, parse_blend


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("anna", None),
        ("Anna B.", None),
        ("anna:0.7,bert:0.3", [("anna", 0.7), ("bert", 0.3)]),
        ("a+b", [("a", 1.0), ("b", 1.0)]),
        ("a(2)+b(1)", [("a", 2.0), ("b", 1.0)]),
        (" a b = .5 + c ( 1. ) ", [("a b", 0.5), ("c", 1.0)]),
        ("a=3", [("a", 3.0)]),
        ("a,b,c", [("a", 1.0), ("b", 1.0), ("c", 1.0)]),
        ("/x/y:z", None),
    ],
)
def test_spellings(text: str, parts: list[tuple[str, float]] | None) -> None:
    assert parse_blend(text) == parts


@pytest.mark.parametrize("text", ["a+", ",", "a:0,b:1", "a(0)+b", "+".join("a" * (MOST_PARTS + 1))])
def test_spellings_that_are_wrong(text: str) -> None:
    with pytest.raises(VoiceError, match="blend"):
        parse_blend(text)


def test_two_voices_are_blended_on_the_arc_between_them() -> None:
    angle = 1.2  # of the voices, of lengths that do not count
    first, second = 3 * np.array([1.0, 0, 0]), 0.1 * np.array([math.cos(angle), math.sin(angle), 0])
    for share in (0.1, 0.5, 0.75):
        mixed = blend([first, second], [1 - share, share])
        assert mixed.dtype == np.float32
        assert np.allclose(mixed, [math.cos(share * angle), math.sin(share * angle), 0], atol=1e-6)


def test_the_mean_of_many_is_where_the_directions_cancel() -> None:
    random = np.random.default_rng(1)
    points = random.normal(size=(5, 64)) + 2 * random.normal(size=64)
    weights = random.uniform(0.5, 2, size=5)
    mean = blend(list(points), list(weights)).astype(np.float64)
    units = points / np.linalg.norm(points, axis=1, keepdims=True)
    cosines = units @ mean
    tangents = units - cosines[:, None] * mean
    tangents *= (np.arccos(cosines) / np.linalg.norm(tangents, axis=1))[:, None]
    assert np.linalg.norm(weights @ tangents) < 1e-5
    straight = weights @ units
    assert not np.allclose(mean, straight / np.linalg.norm(straight), atol=1e-4)


def test_one_voice_is_itself_and_equal_ones_are_one() -> None:
    voice = np.array([3.0, 4.0])
    assert np.allclose(blend([voice], [0.2]), [0.6, 0.8])
    assert np.allclose(blend([voice, voice], [1, 2]), [0.6, 0.8])


def test_far_voices_are_blended_as_vectors() -> None:
    first, second = np.array([1.0, 0.0]), np.array([math.cos(3.0), math.sin(3.0)])
    total = 0.6 * first + 0.4 * second
    assert np.allclose(blend([first, second], [6, 4]), total / np.linalg.norm(total), atol=1e-6)


@pytest.mark.parametrize(
    ("voices", "weights", "words"),
    [
        ([], [], "needs voices"),
        ([np.ones(2)], [1, 2], "one weight for each"),
        ([np.ones(2), np.ones(3)], [1, 1], "of one model"),
        ([np.ones(2), np.ones(2)], [1, 0], "above 0"),
        ([np.ones(2), np.ones(2)], [1, math.nan], "above 0"),
        ([np.ones(2), -np.ones(2)], [1, 1], "cancel"),
    ],
)
def test_what_cannot_be_blended(voices: list[np.ndarray], weights: list[float], words: str) -> None:
    with pytest.raises(VoiceError, match=words):
        blend(voices, weights)
