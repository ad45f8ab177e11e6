"""The phonemes of an unknown word, from its letters.

A small convolutional network labels each letter with the phonemes that it says, stress included;
`recipes/english_pronunciation` trains it. Labels are chosen for all letters at once, so that a word
takes a fraction of a millisecond, and then exactly one vowel gets the primary stress.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
BEGINNING, END = 1, 2  # 0 is beyond the word
SYMBOLS = len(ALPHABET) + 3
REACH = 2  # letters on each side that a layer sees
EPSILON = 1e-5

_FLAP_BEFORE_STRESS = re.compile("T(?=[ˈˌ])")

Floats = NDArray[np.float32]


def letter_numbers(word: str) -> NDArray[np.int64]:
    """Return the numbers of the letters of ``word`` between its two ends: [letters + 2]."""
    inner = [ord(letter) - ord("a") + 3 for letter in word]
    return np.array([BEGINNING, *inner, END], dtype=np.int64)


@dataclass(frozen=True)
class LetterNetwork:
    """The network's weights.

    Attributes:
        labels: the phonemes that a letter may say.
        letters: an embedding, [SYMBOLS, width].
        layers: of each layer what reads the window around a letter, [(2 * REACH + 1) * width,
            width], a bias, [width], and what is added to the letter, [width, width].
        head: [width, labels].
        head_bias: [labels].
    """

    labels: tuple[str, ...]
    letters: Floats
    layers: tuple[tuple[Floats, Floats, Floats], ...]
    head: Floats
    head_bias: Floats

    def phonemes(self, word: str) -> str:
        """Return the phonemes of ``word``, letters a to z, with one primary stress."""
        scores = self.scores(word)
        rows = np.arange(len(word))
        plain = np.where(self._has_stress, -np.inf, scores)
        stressed = np.where(self._has_stress, scores, -np.inf)
        chosen = plain.argmax(axis=1)
        best = stressed.argmax(axis=1)
        place = int((stressed[rows, best] - plain[rows, chosen]).argmax())
        chosen[place] = best[place]
        said = "".join(self.labels[label] for label in chosen)
        return _FLAP_BEFORE_STRESS.sub("t", said)

    @cached_property
    def _has_stress(self) -> NDArray[np.bool_]:
        return np.array(["ˈ" in label for label in self.labels])

    def scores(self, word: str) -> Floats:
        """Return the logits of all labels for each letter of ``word``: [letters, labels]."""
        hidden: Floats = self.letters[letter_numbers(word)]
        length, width = hidden.shape
        padded = np.zeros((length + 2 * REACH, width), dtype=np.float32)
        for window, bias, out in self.layers:
            scale = np.sqrt(np.einsum("lw,lw->l", hidden, hidden) / width + EPSILON)
            np.divide(hidden, scale[:, None], out=padded[REACH:-REACH])
            inner = np.tile(bias, (length, 1))
            # Small products, one for each place of the window: BLAS starts no threads for them.
            for place in range(2 * REACH + 1):
                part = window[place * width : (place + 1) * width]
                inner += padded[place : place + length] @ part
            hidden = hidden + np.asarray(np.maximum(inner, 0) @ out, dtype=np.float32)
        return np.asarray(hidden[1:-1] @ self.head + self.head_bias, dtype=np.float32)


def unpack(data: bytes) -> LetterNetwork:
    """Return the network of a packed file: matrices int8 with a scale for each column."""
    with np.load(BytesIO(data), allow_pickle=False) as stored:
        layers = sum(name.startswith("bias") for name in stored.files)

        def matrix(name: str) -> Floats:
            return np.asarray(stored[name] * stored[f"{name}_scale"], dtype=np.float32)

        return LetterNetwork(
            tuple(stored["labels"].tolist()),
            matrix("letters"),
            tuple(
                (matrix(f"window{i}"), stored[f"bias{i}"], matrix(f"out{i}")) for i in range(layers)
            ),
            matrix("head"),
            stored["head_bias"],
        )


@lru_cache(maxsize=1)
def load_network() -> LetterNetwork:
    """Return the packaged network, unpacked once."""
    return unpack((files(__package__) / "letters.npz").read_bytes())
