"""Third tones before third tones, which rise.

Words are joined from the inside to the outside: first the parts of a word, then the words of a
foot, then the feet. At each seam a third tone before one that is still third becomes the second
tone (Chen, "Tone Sandhi: Patterns across Chinese Dialects", 2000, chapter 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .lexicon import Lexicon
from .phrase import Phrase
from .syllables import NEUTRAL

# The light syllable of these was a third tone, and the one before it still rises.
_RISING_BEFORE_LIGHT = frozenset({
    "哪里", "小姐", "老鼠", "手里", "嘴里", "手指", "讲讲", "想想", "找找", "走走", "等等",
    "写写",
})  # fmt: skip


def with_third_tones(phrase: Phrase, silent: frozenset[int], lexicon: Lexicon) -> Phrase:
    """Return the phrase with risen third tones.

    Args:
        silent: places of characters that are no syllable of their own, such as a merged 儿.
    """
    tones = phrase.tones
    feet = _feet(phrase, silent, lexicon)
    for place in range(len(tones) - 1):
        is_light = tones[place] == 3 and tones[place + 1] == NEUTRAL
        if is_light and phrase.text[place : place + 2] in _RISING_BEFORE_LIGHT:
            tones[place] = 2
    for foot in feet:
        for before, after in pairwise(foot):
            _join(tones, before, after)
    for foot, following in reversed(list(pairwise(feet))):
        _join(tones, foot[-1], following[0])
    return phrase.with_tones(tones)


def _join(tones: list[int], before: int, after: int) -> None:
    if tones[before] == tones[after] == 3:
        tones[before] = 2


def _feet(phrase: Phrase, silent: frozenset[int], lexicon: Lexicon) -> list[list[int]]:
    """Return the places of each foot; words of one syllable go in pairs."""
    feet: list[list[int]] = []
    is_single = False
    place = 0
    for word in phrase.words:
        for size in _parts(word, lexicon):
            places = [p for p in range(place, place + size) if p not in silent]
            place += size
            if not places:
                continue
            if is_single and len(word) == 1:
                feet[-1] += places
                is_single = False
            else:
                feet.append(places)
                is_single = len(word) == 1
    return feet


def _parts(word: str, lexicon: Lexicon) -> Sequence[int]:
    """Return the sizes of the parts that a word is made of."""
    if len(word) < 3:
        return (len(word),)
    if len(word) == 3:
        left = lexicon.cost(word[:2]) + lexicon.cost(word[2])
        right = lexicon.cost(word[0]) + lexicon.cost(word[1:])
        return (2, 1) if left <= right else (1, 2)
    return (2, *_parts(word[2:], lexicon))
