"""A run of Chinese characters as words and syllables, which the rules of speech change in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .lexicon import Lexicon, Reading
from .polyphones import polyphone
from .segmenter import segmented


@dataclass(frozen=True)
class Phrase:
    """Characters between two marks.

    Attributes:
        text: the characters, in simplified form.
        words: the words; together they are the text.
        readings: the syllable of each character.
        lexical: the tone of each character in a word of its own, before it became neutral.
    """

    text: str
    words: tuple[str, ...]
    readings: tuple[Reading, ...]
    lexical: tuple[int, ...]

    @classmethod
    def of(cls, text: str, lexicon: Lexicon) -> Phrase:
        """Return the words and their readings as a dictionary has them."""
        words = segmented(text, lexicon)
        readings: list[Reading] = []
        for index, word in enumerate(words):
            chosen = polyphone(words, index, text, len(readings), lexicon)
            readings += map(Reading.of, chosen.split()) if chosen else lexicon.reading(word)
        lexical = tuple(
            reading.tone if reading.tone < 5 else lexicon.reading(character)[0].tone
            for reading, character in zip(readings, text, strict=True)
        )
        return cls(text, tuple(words), tuple(readings), lexical)

    def with_tones(self, tones: Sequence[int]) -> Phrase:
        """Return the same syllables with other tones."""
        changed = (r.with_tone(tone) for r, tone in zip(self.readings, tones, strict=True))
        return replace(self, readings=tuple(changed))

    @property
    def tones(self) -> list[int]:
        """The tone of each syllable."""
        return [reading.tone for reading in self.readings]
