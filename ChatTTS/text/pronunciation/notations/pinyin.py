"""Pinyin with digits or accents, as phonemes."""

from __future__ import annotations

import re
import unicodedata

from ....errors import TextError, shown
from ..mandarin.syllables import ER, NEUTRAL, is_syllable, syllable_phonemes

_ACCENTS = {"\u0304": 1, "\u0301": 2, "\u030c": 3, "\u0306": 3, "\u0300": 4}
_SYLLABLES = re.compile(r"([a-zê\u0300-\u030c\u0308:]+)([0-5]?)", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s'’.·\-]*")
_LONGEST = 7  # letters, with the r of erhua: zhuangr


def from_pinyin(text: str) -> str:
    """Return the phonemes of a word in pinyin, such as ``ni3 hao3``, ``nǐ hǎo`` or ``huar1``.

    The tones are spoken as they are written: the caller writes ``ni2 hao3`` where the first one
    shall rise. A syllable without a tone, or with 0 or 5, is neutral. An r behind a syllable is
    that of 儿. "ü" may be written "v" or "u:".

    Raises:
        TextError: the text has something else; the message names it.
    """
    rest = unicodedata.normalize("NFD", text.strip().lower())
    phonemes = ""
    place = 0
    while place < len(rest):
        match = _SYLLABLES.match(rest, place)
        if match is None:
            raise _refused(unicodedata.normalize("NFC", rest[place:])[:1], text)
        phonemes += _word(match[1], match[2], text)
        between = _BETWEEN.match(rest, match.end())
        place = between.end() if between else match.end()
    if not phonemes:
        raise TextError("the pinyin is empty; write syllables with tones, such as ni3 hao3")
    return phonemes


def _word(letters: str, digit: str, text: str) -> str:
    """Return the phonemes of syllables without a mark between them; the digit is the last one's."""
    letters = letters.replace("u\u0308", "v").replace("u:", "v").replace("e\u0302", "ê")
    plain = "".join(c for c in letters if c not in _ACCENTS)
    syllables = _split(plain)
    if syllables is None:
        raise _refused(unicodedata.normalize("NFC", letters.replace("v", "ü")) + digit, text)
    phonemes = ""
    place = 0
    for index, syllable in enumerate(syllables):
        tone, place = _accent(letters, place, len(syllable))
        if digit and index == len(syllables) - 1:
            tone = int(digit) or NEUTRAL
        if is_syllable(syllable):
            phonemes += syllable_phonemes(syllable, tone)
        else:
            phonemes += syllable_phonemes(syllable[:-1], tone, before_er=True) + ER
    return phonemes


def _accent(letters: str, place: int, size: int) -> tuple[int, int]:
    """Return the tone of the syllable of ``size`` letters from ``place`` on, and its end."""
    tone = NEUTRAL
    while place < len(letters) and (size or letters[place] in _ACCENTS):
        if letters[place] in _ACCENTS:
            tone = _ACCENTS[letters[place]]
        else:
            size -= 1
        place += 1
    return tone, place


def _split(letters: str) -> list[str] | None:
    """Return the syllables that together are ``letters``, or None.

    Syllables are as long as they can be, but none begins with a vowel inside of a word, where an
    apostrophe would stand: "xian" is one, "danao" is da and nao.
    """
    ways: list[list[str] | None] = [None] * len(letters) + [[]]
    for start in reversed(range(len(letters))):
        if start and letters[start] in "aoe":
            continue
        for end in range(min(start + _LONGEST, len(letters)), start, -1):
            syllable = letters[start:end]
            is_erhua = syllable[-1] == "r" and is_syllable(syllable[:-1]) and len(syllable) > 2
            behind = ways[end]
            if behind is not None and (is_syllable(syllable) or is_erhua):
                ways[start] = [syllable, *behind]
                break
    return ways[0]


def _refused(part: str, text: str) -> TextError:
    return TextError(
        f"{shown(text)} is not pinyin: {shown(part)} is not a syllable of Mandarin; write "
        "syllables with the digits or accents of their tones, such as ni3 hao3 or nǐ hǎo"
    )
