"""Read Mandarin out: from characters to phonemes.

A text is cut at marks into phrases, and a phrase into words. A word has its reading from the
lexicon, and a character that stands alone from rules for what is around it. Then the tones of
speech replace those of the dictionary: of 一 and 不, of light syllables, and of third tones in a
row.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from ..marks import SOUNDS_OF_MARKS
from ..phonemes import Pronounced
from .erhua import merged
from .lexicon import Lexicon, lexicon
from .light_tones import with_light_tones
from .phrase import Phrase
from .syllables import ER, syllable_phonemes
from .third_tones import with_third_tones

HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_TOKEN = re.compile(rf"(?P<han>[{HAN}0-9０-９]+)|(?P<other>(?P<one>\S)(?P=one)*)")
_LETTERS = re.compile(rf"[^\W\d_{HAN}]+")
_DIGITS = str.maketrans("0123456789０１２３４５６７８９", "零一二三四五六七八九" * 2)
_COMPATIBLE = re.compile(r"[\uf900-\ufaff]")
_REPEATED = re.compile(r"(.)々")


def pronounce_mandarin(text: str) -> list[Pronounced]:
    """Return the phonemes of each character of a Mandarin text.

    Args:
        text: as normalized: numbers are words. Digits that are left are read one by one.

    Returns:
        In order, all that is no white space: a piece for each Chinese character, where the pieces
        of a word are joined; one for each mark, or run of one mark; and one without phonemes for
        what Mandarin has no sound for, such as letters.
    """
    words = lexicon()
    pieces: list[Pronounced] = []
    place = 0
    while match := _TOKEN.search(text, place):
        place = match.end()
        if match["han"]:
            pieces += _pronounced(match["han"], match.start(), words)
            continue
        letters = _LETTERS.match(text, match.start())
        if letters:
            place = letters.end()
        sound = "" if letters else SOUNDS_OF_MARKS.get(match["one"], "")
        pieces.append(Pronounced(match.start(), place, sound))
    return pieces


def _pronounced(written: str, start: int, words: Lexicon) -> Iterator[Pronounced]:
    phrase = Phrase.of(_plain(written, words), words)
    phrase = with_light_tones(phrase)
    erhua = merged(phrase)
    phrase = with_third_tones(phrase, erhua, words)
    place = 0
    for word in phrase.words:
        end = place + len(word)
        for at in range(place, end):
            is_joined = at + 1 < end or at + 1 in erhua
            yield Pronounced(start + at, start + at + 1, _sound(phrase, at, erhua), is_joined)
        place = end


def _sound(phrase: Phrase, at: int, erhua: frozenset[int]) -> str:
    reading = phrase.readings[at]
    if at in erhua:
        return ER
    if not reading.pinyin:
        return ""
    return syllable_phonemes(reading.pinyin, reading.tone, at + 1 in erhua)


def _plain(written: str, words: Lexicon) -> str:
    """Return simplified characters, one for each character."""
    text = written.translate(_DIGITS)
    text = _COMPATIBLE.sub(lambda match: unicodedata.normalize("NFKC", match[0])[:1], text)
    text = _REPEATED.sub(r"\1\1", text)
    return text.translate(words.simplified)
