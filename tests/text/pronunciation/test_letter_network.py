"""Letters to sounds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ChatTTS.text.pronunciation.english.letter_network import (
    EPSILON,
    REACH,
    SYMBOLS,
    Floats,
    LetterNetwork,
    letter_numbers,
    load_network,
)
from ChatTTS.text.pronunciation.english.stress import SOUNDS

LABELS = ("", "k", "T", "æ", "ˈæ", "ˌæ")
WIDTH = 4


def network(seed: int = 0) -> LetterNetwork:
    draws = np.random.default_rng(seed)

    def drawn(*shape: int) -> Floats:
        return draws.normal(size=shape).astype(np.float32)

    window = (2 * REACH + 1) * WIDTH
    layers = tuple((drawn(window, WIDTH), drawn(WIDTH), drawn(WIDTH, WIDTH)) for _ in range(2))
    return LetterNetwork(
        LABELS, drawn(SYMBOLS, WIDTH), layers, drawn(WIDTH, len(LABELS)), drawn(len(LABELS))
    )


def plain_scores(net: LetterNetwork, word: str) -> list[Floats]:
    """Compute the scores letter by letter."""
    hidden = [net.letters[number] for number in letter_numbers(word)]
    for window, bias, out in net.layers:
        zero = np.zeros(WIDTH, dtype=np.float32)
        normal = [row / np.sqrt((row * row).mean() + EPSILON) for row in hidden]
        padded = [zero] * REACH + normal + [zero] * REACH
        around = [np.concatenate(padded[i : i + 2 * REACH + 1]) for i in range(len(hidden))]
        hidden = [
            row + np.maximum(near @ window + bias, 0) @ out
            for row, near in zip(hidden, around, strict=True)
        ]
    return [row @ net.head + net.head_bias for row in hidden[1:-1]]


def test_a_word_stands_between_the_signs_of_its_ends() -> None:
    """The packaged network was trained with these numbers."""
    assert letter_numbers("az").tolist() == [1, 3, SYMBOLS - 1, 2]


@pytest.mark.parametrize("word", ["a", "be", "pronunciation"])
def test_scores_are_those_of_each_letter(word: str) -> None:
    net = network()
    np.testing.assert_allclose(net.scores(word), plain_scores(net, word), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(10))
def test_the_likeliest_labels_with_exactly_one_stress_are_chosen(seed: int) -> None:
    net = network(seed)
    scores = net.scores("ban")
    stress = LABELS.index("ˈæ")
    best = max(
        (choice for choice in product(range(len(LABELS)), repeat=3) if choice.count(stress) == 1),
        key=lambda choice: sum(scores[i, label] for i, label in enumerate(choice)),
    )
    # A flap is never before a stressed vowel.
    assert net.phonemes("ban") == "".join(LABELS[i] for i in best).replace("Tˈ", "tˈ").replace(
        "Tˌ", "tˌ"
    )


def test_the_packaged_network_reads_invented_words() -> None:
    net = load_network()
    assert net.phonemes("blick") == "blˈɪk"
    assert net.phonemes("dreeb") == "dɹˈib"
    assert set("".join(map(net.phonemes, ("zorvage", "quiltation", "a")))) <= SOUNDS | set("ˈˌᵊT")
