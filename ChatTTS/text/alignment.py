"""The text positions of a prompt, and the caller's word that each of them speaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .spoken_words import CallerWord, Reader, match_words, spoken_spans


@dataclass(frozen=True)
class TextColumns:
    """The last text positions of a prompt: those of the utterance, and the end of the text.

    Attributes:
        words: the caller's words that the utterance speaks.
        owners: int64 [columns], for each position the index of its word, or -1: of marks, tags,
            and words that the caller did not write. Apart from -1 they never decrease.
    """

    words: tuple[CallerWord, ...]
    owners: NDArray[np.int64]
    tags: frozenset[int] = frozenset()


def text_columns(
    spoken: str,
    offsets: Sequence[tuple[int, int]],
    words: tuple[CallerWord, ...],
    read: Reader,
) -> TextColumns:
    """Return the columns of an utterance.

    Args:
        spoken: the utterance as the model is given it.
        offsets: for each of its tokens, start and end of the characters that it speaks; equal
            where it speaks none.
        words: the caller's words that it speaks.
        read: returns the spoken form of a written word.
    """
    spans = spoken_spans(spoken)
    keys = ["".join(filter(_is_letter, spoken[start:end])).casefold() for start, end in spans]
    owners = np.array([*match_words(words, keys, read), -1], dtype=np.int64)
    of_character = np.full(len(spoken) + 1, -1, dtype=np.int64)  # -1 is also the last owner
    for number, (start, end) in enumerate(spans):
        of_character[start:end] = number
    starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    tags = frozenset(i for i, start in enumerate(starts) if spoken.startswith("[", start))
    of_token = np.where(starts < ends, owners[of_character[starts]], -1)
    return TextColumns(words, np.append(of_token, -1), tags)


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"
