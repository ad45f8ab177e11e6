"""Words of Mandarin with their frequencies and readings, and the readings of characters.

They come from the packed file beside this one, which ``recipes/mandarin_words`` makes.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from .syllables import NEUTRAL

FILE = "lexicon.bin"
# A character that no word has: longer than two rare characters together.
UNKNOWN_COST = 127
_UNKNOWN_CLASS = "x"


@dataclass(frozen=True)
class Reading:
    """A syllable: pinyin without its tone, with "v" for "ü", and the tone, 1 to 5."""

    pinyin: str
    tone: int

    @classmethod
    def of(cls, numbered: str) -> Reading:
        """Return the reading that ``numbered``, such as "hang2", writes."""
        return cls(numbered[:-1], int(numbered[-1]))

    def with_tone(self, tone: int) -> Reading:
        """Return the same syllable in another tone."""
        return Reading(self.pinyin, tone)


@dataclass(frozen=True)
class Lexicon:
    """The words and readings of the packed file; all words are in simplified characters.

    Attributes:
        costs: for each word, how rare it is: four times the negative logarithm, to the base of 2,
            of its share of all words in a text.
        classes: the class of each word: "n" noun, "v" verb, "a" adjective, "d" adverb, "m" number,
            "q" measure, "r" pronoun, and others.
        readings: of the words that are not said as their characters are, numbered pinyin.
        characters: numbered pinyin of each character.
        simplified: the simplified character of each traditional one, by its code point.
        longest: characters of the longest word.
    """

    costs: Mapping[str, int]
    classes: Mapping[str, str]
    readings: Mapping[str, str]
    characters: Mapping[str, str]
    simplified: Mapping[int, str]
    longest: int

    def cost(self, word: str) -> int:
        """Return the cost of a word; of one that is not known, that of its characters."""
        return self.costs.get(word, UNKNOWN_COST * len(word))

    def word_class(self, word: str) -> str:
        """Return the class of a word, or "x" where it is not known."""
        return self.classes.get(word, _UNKNOWN_CLASS)

    @lru_cache(maxsize=1 << 14)  # noqa: B019 - the one lexicon lives as long as the process
    def reading(self, word: str) -> tuple[Reading, ...]:
        """Return the syllables of a word, one for each character, as in a dictionary.

        A character that has no reading is left out of the sounds: its syllable is empty.
        """
        known = self.readings.get(word)
        if known is not None:
            return tuple(map(Reading.of, known.split()))
        return tuple(self._character(character) for character in word)

    def _character(self, character: str) -> Reading:
        numbered = self.characters.get(character)
        return Reading.of(numbered) if numbered else Reading("", NEUTRAL)

    def __hash__(self) -> int:
        return id(self)


@cache
def lexicon() -> Lexicon:
    """Read the packed file, once in a process."""
    packed = files(__package__).joinpath(FILE).read_bytes()
    groups, readings, characters, simplified = zlib.decompress(packed).decode().split("\n\n")
    costs: dict[str, int] = {}
    classes: dict[str, str] = {}
    for group in groups.split("\n"):
        head, *words = group.split(" ")
        costs.update(dict.fromkeys(words, int(head[1:])))
        classes.update(dict.fromkeys(words, head[0]))
    return Lexicon(
        costs=costs,
        classes=classes,
        readings=dict(line.split(" ", 1) for line in readings.split("\n")),
        characters={
            character: line.split(" ")[0]
            for line in characters.split("\n")
            for character in line.split(" ")[1]
        },
        simplified={ord(pair[0]): pair[1] for pair in simplified.split(" ")},
        longest=max(map(len, costs)),
    )
