"""Draws are pure functions of key and counter."""

from typing import Any

import numpy as np
import pytest

from ChatTTS.errors import ConfigError
from ChatTTS.model.generation import Listener
from ChatTTS.model.random_numbers import DrawKey, Pass, philox, random_bits

# Known answers of Philox-4x32-10 from the authors' Random123 distribution.
ONES = " ".join(["ffffffff"] * 4)
ZEROS = " ".join(["00000000"] * 4)
PI = "243f6a88 85a308d3 13198a2e 03707344"
KNOWN = (
    (ZEROS, "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (ONES, "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (PI, "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
)


def words(text: str) -> np.ndarray:
    return np.array([int(word, 16) for word in text.split()], dtype=np.uint64)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_known_answers(counter: str, key: str, expected: str) -> None:
    found = philox(words(counter)[:, None], words(key)[:, None])
    assert [int(word[0]) for word in found] == words(expected).tolist()


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    keys = [DrawKey(seed, Pass.CODE) for seed in (1, 2, 3)]
    together = random_bits(keys, [5, 9, 0], num_codebooks=4)
    alone = random_bits([keys[1]], [9], num_codebooks=4)
    assert together[1].tolist() == alone[0].tolist()


def test_every_part_of_the_counter_counts() -> None:
    base = DrawKey(7, Pass.CODE, utterance=1, sample=1, attempt=1)
    keys = [
        base,
        DrawKey(8, Pass.CODE, 1, 1, 1),
        DrawKey(7 + 2**32, Pass.CODE, 1, 1, 1),
        DrawKey(7, Pass.REFINE, 1, 1, 1),
        DrawKey(7, Pass.CODE, 2, 1, 1),
        DrawKey(7, Pass.CODE, 1, 2, 1),
        DrawKey(7, Pass.CODE, 1, 1, 2),
    ]
    numbers = random_bits([*keys, base], [3] * len(keys) + [4], num_codebooks=6)
    assert len(set(numbers.flatten().tolist())) == numbers.size


def test_negative_seeds_are_their_64_bits() -> None:
    first, second = (random_bits([DrawKey(s, Pass.CODE)], [0], 4) for s in (-1, 2**64 - 1))
    assert first.tolist() == second.tolist()


def test_numbers_are_uniform_and_below_one() -> None:
    bits = random_bits([DrawKey(0, Pass.CODE)] * 5000, list(range(5000)), num_codebooks=4)
    assert bits.dtype == np.int64
    numbers = (bits * 2.0**-24).astype(np.float32)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    chi_square = float(((counts - 1000) ** 2 / 1000).sum())
    assert chi_square < 43.8  # 19 degrees of freedom, one in a thousand


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 1.5}, "seed of a draw key must be a whole number, not 1.5"),
        ({"utterance": 2**32}, f"utterance of a draw key must be from 0 to {2**32 - 1}"),
        ({"sample": -1}, "sample of a draw key must be from 0 to 65535, not -1"),
        ({"attempt": "1"}, "attempt of a draw key must be a whole number, not '1'"),
        ({"kind": 2}, "kind of a draw key must be a Pass, not 2"),
    ],
)
def test_a_key_says_what_is_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DrawKey(**({"seed": 1, "kind": Pass.CODE} | given))


def test_a_key_holds_numbers_of_python() -> None:
    key = DrawKey(np.int64(-1), 1, utterance=np.uint8(3))  # type: ignore[arg-type]
    assert key == DrawKey(2**64 - 1, Pass.REFINE, 3)
    assert [type(each) for each in (key.seed, key.kind, key.utterance)] == [int, Pass, int]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"first": -1}, "first of a listener must be 0 or more, not -1"),
        ({"rate": float("inf")}, "rate of a listener must be above 0 and finite, not inf"),
        ({"waits": np.zeros(2)}, "waits of a listener must be true or false"),
    ],
)
def test_a_listener_says_what_is_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Listener(**({"first": 1, "rate": 2.0} | given))
