"""The new voice's space of speakers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from recipes.voice.styles import (
    CAST,
    COORDINATES,
    FOUNDERS,
    VOICES,
    StyleSpace,
    mixture,
    speaker_place,
    speaker_vector,
    statistics,
)


@pytest.fixture(scope="module")
def tables() -> NDArray[np.float32]:
    """Style vectors that differ by voice, and a little by row."""
    random = np.random.default_rng(0)
    voices = random.standard_normal((len(VOICES), 1, 256))
    rows = 0.1 * random.standard_normal((len(VOICES), 120, 256))
    return (voices + rows).astype(np.float32)


@pytest.fixture(scope="module")
def space(tables: NDArray[np.float32]) -> StyleSpace:
    return StyleSpace.of(tables)


def test_weights_of_any_place_add_up_to_one(space: StyleSpace) -> None:
    places = np.random.default_rng(1).standard_normal((50, COORDINATES))
    assert space.weights(places).sum(axis=1) == pytest.approx(np.ones(50))


def test_a_place_is_found_again_from_its_weights(space: StyleSpace) -> None:
    places = np.random.default_rng(2).standard_normal((50, COORDINATES))
    assert np.allclose(space.place(space.weights(places)), places)


def test_blends_move_evenly_from_one_speaker_to_the_other(space: StyleSpace) -> None:
    one, other = mixture({"af_heart": 1}), mixture({"zm_yunxi": 3, "bf_emma": 1})
    between = space.place(0.25 * one + 0.75 * other)
    assert np.allclose(between, 0.25 * space.place(one) + 0.75 * space.place(other))


def test_voices_vary_by_one_in_each_coordinate(space: StyleSpace) -> None:
    around = np.sqrt(space.centre @ space.places**2)
    assert np.allclose(around, 1)
    assert np.allclose(space.centre @ space.places, 0)


def test_founders_keep_their_style_and_others_most_of_it(
    space: StyleSpace, tables: NDArray[np.float32]
) -> None:
    kept = space.weights(space.places) @ tables[:, 100]
    lost = np.linalg.norm(kept - tables[:, 100], axis=1) / np.linalg.norm(tables[:, 100], axis=1)
    for shares in FOUNDERS:
        wanted = mixture(shares) @ tables[:, 100]
        found = space.weights(space.place(mixture(shares))) @ tables[:, 100]
        assert np.linalg.norm(found - wanted) < 0.25 * np.linalg.norm(wanted)
    assert 0.2 < lost.mean() < 0.8


def test_a_speaker_is_found_again_from_its_normalised_vector() -> None:
    place = np.random.default_rng(3).standard_normal(COORDINATES)
    vector = speaker_vector(place, 64)
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert np.allclose(speaker_place(vector), place, atol=1e-5)
    assert np.allclose(speaker_place(vector.astype(np.float16) * 3), place, atol=2e-2)


def test_draws_of_the_statistics_are_speakers_of_the_space() -> None:
    std, mean = np.split(statistics(64).astype(np.float32), 2)
    drawn = mean + std * np.random.default_rng(4).standard_normal((4000, 64)).astype(np.float32)
    places = np.stack([speaker_place(vector) for vector in drawn])
    expected = speaker_vector(places[0], 64)
    assert np.allclose(drawn[0] / np.linalg.norm(drawn[0]), expected, atol=1e-6)
    assert np.allclose(places.mean(axis=0), 0, atol=0.05)
    assert np.allclose(places.std(axis=0), places.std(), atol=0.05)


def test_the_cast_has_two_women_and_two_men_of_each_language() -> None:
    for language, letters in (("en", "ab"), ("zh", "z")):
        people = [person for person in CAST.values() if person.language == language]
        sexes = []
        for person in people:
            assert sum(person.weights.values()) == pytest.approx(1)
            most = max(person.weights, key=lambda voice: person.weights[voice])
            assert most[0] in letters
            sexes.append(most[1])
        assert sorted(sexes) == ["f", "f", "m", "m"]
