"""The International Phonetic Alphabet, as phonemes of the voices.

The voices know the sounds of American English and of Mandarin. Another sound becomes its nearest
neighbour among them. A transcription with tones is taken as Mandarin, any other as English.
"""

from __future__ import annotations

import re
import unicodedata

from ....errors import TextError, shown
from .ipa_symbols import DROPPED, ENGLISH, MANDARIN, STRESSES, VOWELS

_LONGEST = {False: max(map(len, ENGLISH)), True: max(map(len, MANDARIN))}
_TONE = re.compile(r"[˥˦˧˨˩]+|[⁰¹²³⁴⁵]+|[→↗↓↘]")
_HEIGHTS = {letter: height for height, letter in enumerate("˩˨˧˦˥", 1)} | {
    digit: max(height, 1) for height, digit in enumerate("⁰¹²³⁴⁵")
}
_CODA = re.compile(r"[nŋ]?$")
_ENCLOSED = re.compile(r"^\s*[/\[](.*)[/\]]\s*$", re.DOTALL)
_SECONDARY = "ˌ"
_PRIMARY = "ˈ"


def from_ipa(text: str) -> str:
    """Return the phonemes of words in IPA, such as ``həˈloʊ`` or ``ni˧˥xɑʊ̯˨˩˦``.

    Diphthongs, affricates with or without ties, length marks, r-coloured vowels, stress, dots
    between syllables and slashes around the whole are understood. A word of one syllable without a
    mark is stressed.

    Raises:
        TextError: a symbol has no neighbour among the sounds of the voices; the message names it.
    """
    enclosed = _ENCLOSED.match(text)
    plain = unicodedata.normalize("NFD", enclosed[1] if enclosed else text)
    plain = plain.replace("c\u0327", "ç").translate(DROPPED)
    is_mandarin = _TONE.search(plain) is not None
    words = [_mandarin(word) if is_mandarin else _english(word) for word in plain.split()]
    phonemes = " ".join(word for word in words if word)
    if not phonemes:
        raise TextError(f"{shown(text)} has no sound; write phonemes of IPA, such as həˈloʊ")
    return phonemes


def _english(word: str) -> str:
    phonemes = ""
    stress = ""
    for symbol, sound in _symbols(word, is_mandarin=False):
        if symbol in STRESSES:
            stress = STRESSES[symbol]
        elif sound and sound[0] in VOWELS:
            phonemes += stress + sound  # the voices' stress stands before the vowel
            stress = ""
        else:
            phonemes += sound
    vowels = sum(sound in VOWELS for sound in phonemes)
    if vowels == 1 and not {_PRIMARY, _SECONDARY} & set(phonemes):
        place = next(i for i, sound in enumerate(phonemes) if sound in VOWELS)
        return phonemes[:place] + _PRIMARY + phonemes[place:]
    return phonemes


def _mandarin(word: str) -> str:
    phonemes = ""
    syllable = ""
    place = 0
    for tone in (*_TONE.finditer(word), None):
        end = tone.start() if tone else len(word)
        syllable = "".join(sound for _, sound in _symbols(word[place:end], is_mandarin=True))
        if tone is None:
            return phonemes + syllable
        coda = _CODA.search(syllable)
        at = coda.start() if coda else len(syllable)
        phonemes += syllable[:at] + _arrow(tone[0]) + syllable[at:]
        place = tone.end()
    return phonemes


def _symbols(word: str, is_mandarin: bool) -> list[tuple[str, str]]:
    """Return the symbols of a word and their phonemes."""
    table = MANDARIN if is_mandarin else ENGLISH
    found = []
    place = 0
    while place < len(word):
        for size in range(_LONGEST[is_mandarin], 0, -1):
            symbol = word[place : place + size]
            sound = table.get(symbol)
            if sound is not None:
                found.append((symbol, sound))
                place += len(symbol)
                break
        else:
            raise _refused(word[place], word)
    return found


def _arrow(tone: str) -> str:
    """Return the tone that heights from 1 to 5 draw."""
    if tone in "→↗↓↘":
        return tone
    heights = [_HEIGHTS[letter] for letter in tone]
    first, last = heights[0], heights[-1]
    if min(heights) < min(first, last) or max(heights) <= 2 or (first <= 3 and last < first):
        return "↓"
    if last > first:
        return "↗"
    return "↘" if last < first else "→"


def _refused(symbol: str, word: str) -> TextError:
    name = unicodedata.name(symbol, "a character without a name").lower()
    return TextError(
        f"the voices have no sound for {shown(symbol)} ({name}) in {shown(word)}; write sounds of "
        "English, or of Mandarin with tone letters, in IPA: həˈloʊ, ni˧˥xaʊ˨˩˦"
    )
