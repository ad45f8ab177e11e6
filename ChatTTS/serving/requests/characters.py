"""The times of characters, for protocols that tell these and not the times of words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...pipeline.results import Word


@dataclass(frozen=True)
class TimedCharacter:
    """A character, and when it is spoken, in seconds of the sound that is sent."""

    text: str
    start: float
    end: float


class CharacterTimes:
    """Spreads the time of each word evenly over its characters.

    Marks and white space between two words share the time between these. Times never run backwards.

    Args:
        speed: tempo of the sound that is sent; the words' own times are those at tempo 1.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._text = ""
        self._sent = 0  # characters
        self._end = 0.0

    def append(self, text: str) -> None:
        """Add text that the next words belong to."""
        self._text += text

    def add(self, words: Iterable[Word]) -> list[TimedCharacter]:
        """Return the characters up to the end of the last word.

        Args:
            words: in order; their characters count from the beginning of all text.
        """
        timed: list[TimedCharacter] = []
        for word in words:
            timed += self._take(word.start_character, word.start / self._speed)
            timed += self._take(word.end_character, word.end / self._speed)
        return timed

    def finish(self, end: float) -> list[TimedCharacter]:
        """Return the characters that are left, up to ``end`` in seconds of the sound."""
        return self._take(len(self._text), end)

    def _take(self, until: int, end: float) -> list[TimedCharacter]:
        """Return the characters before ``until``; they share the time up to ``end``."""
        characters = self._text[self._sent : until]
        begin, end = self._end, max(self._end, end)
        self._end = end
        if not characters:
            return []
        self._sent += len(characters)
        each = (end - begin) / len(characters)
        return [
            TimedCharacter(character, begin + number * each, begin + (number + 1) * each)
            for number, character in enumerate(characters)
        ]
