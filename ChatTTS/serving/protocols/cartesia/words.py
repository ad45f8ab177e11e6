"""Words with the marks around them, as Cartesia's clients join them to text again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....pipeline.results import Word
from ...requests.words import DIGITS


class MarkedWords:
    """Adds to each word the marks between it and the white space beside it.

    Args:
        speed: tempo of the sound that is sent; the words' own times are those at tempo 1.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._text = ""
        self._told = 0  # characters

    def append(self, text: str) -> None:
        """Add text that the next words belong to."""
        self._text += text

    def timestamps(self, words: Iterable[Word], offset: float) -> dict[str, Sequence[Any]]:
        """Return ``words``, and their ``start`` and ``end`` in seconds.

        Args:
            words: in order; their characters count from the beginning of all text.
            offset: seconds before the beginning of that text.
        """
        known = list(words)
        return {
            "words": [self._with_marks(word) for word in known],
            "start": [round(offset + word.start / self._speed, DIGITS) for word in known],
            "end": [round(offset + word.end / self._speed, DIGITS) for word in known],
        }

    def _with_marks(self, word: Word) -> str:
        text, start, end = self._text, word.start_character, word.end_character
        while start > self._told and _is_mark(text[start - 1]):
            start -= 1
        while end < len(text) and _is_mark(text[end]):
            end += 1
        self._told = end
        return text[start:end]


def _is_mark(character: str) -> bool:
    return not (character.isspace() or character.isalnum())
