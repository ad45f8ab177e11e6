"""Aligned words as numbers, and the labels that the network chooses from."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ChatTTS.text.pronunciation.english.letter_network import ALPHABET, letter_numbers

from .alignment import Aligner
from .entries import is_held_out

_WORD = re.compile(f"[{ALPHABET}]{{2,}}")
_LEARNED_FROM = 3_000  # words of the alignment
_RAREST = 6  # uses of a label


@dataclass(frozen=True)
class AlignedWords:
    """Training words.

    Attributes:
        labels: what a letter may say, such as "ks", "ˈA" or nothing.
        batches: letters int64 [words, letters + 2] and labels int64 [words, letters], for each
            length of words.
    """

    labels: tuple[str, ...]
    batches: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int64]]]


def align_words(words: Mapping[str, str]) -> AlignedWords:
    """Align ``words`` with their phonemes, without those that are held out or too odd."""
    pairs = [
        (word, text)
        for word, text in sorted(words.items())
        if _WORD.fullmatch(word) and not is_held_out(word)
    ]
    aligner = Aligner(random.Random(0).sample(pairs, min(_LEARNED_FROM, len(pairs))))
    aligned = [(word, parts) for word, text in pairs if (parts := aligner.align(word, text))]
    uses = Counter(part for _, parts in aligned for part in parts)
    labels = tuple(label for label, count in uses.most_common() if count >= _RAREST)
    number = {label: i for i, label in enumerate(labels)}
    grouped: dict[int, list[tuple[str, Sequence[str]]]] = {}
    for word, parts in aligned:
        if all(part in number for part in parts):
            grouped.setdefault(len(word), []).append((word, parts))
    return AlignedWords(
        labels,
        {
            length: (
                np.stack([letter_numbers(word) for word, _ in group]),
                np.array([[number[part] for part in parts] for _, parts in group]),
            )
            for length, group in sorted(grouped.items())
        },
    )


def save_words(words: AlignedWords, path: Path) -> None:
    """Keep ``words`` in a file."""
    arrays = {f"letters{n}": letters for n, (letters, _) in words.batches.items()}
    arrays |= {f"labels{n}": labels for n, (_, labels) in words.batches.items()}
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, allow_pickle=False, labels=np.array(words.labels), **arrays)
    part.rename(path)


def load_words(path: Path) -> AlignedWords:
    """Read the file of `save_words`."""
    with np.load(path, allow_pickle=False) as stored:
        lengths = [int(name.removeprefix("letters")) for name in stored.files if "letters" in name]
        batches = {n: (stored[f"letters{n}"], stored[f"labels{n}"]) for n in lengths}
        return AlignedWords(tuple(stored["labels"].tolist()), batches)
