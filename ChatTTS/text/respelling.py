"""Respell phonemes of the International Phonetic Alphabet in English letters.

For voices that read letters: there a pronunciation can only be suggested by a spelling.
"""

from __future__ import annotations

_IPA = (
    {"tʃ": "ch", "dʒ": "j", "ʃ": "sh", "ʒ": "zh", "θ": "th", "ð": "th", "ŋ": "ng", "j": "y"}
    | {"ɹ": "r", "r": "r", "ɾ": "t", "ɡ": "g", "x": "kh", "ʔ": "", "ɫ": "l", "ʍ": "wh"}
    | {"aɪ": "eye", "aʊ": "ow", "ɔɪ": "oy", "eɪ": "ay", "oʊ": "oh", "əʊ": "oh"}
    | {
        "iː": "ee",
        "uː": "oo",
        "ɑː": "ah",
        "ɔː": "aw",
        "ɜː": "er",
        "ɝ": "er",
        "ɚ": "er",
        "ər": "er",
        "əɹ": "er",
    }
    | {"ɪ": "i", "i": "ee", "ʊ": "oo", "u": "oo", "ɛ": "eh", "e": "eh", "æ": "a", "ʌ": "uh"}
    | {"ə": "uh", "ɑ": "ah", "a": "ah", "ɒ": "o", "ɔ": "aw", "ɜ": "er", "o": "oh", "y": "oo"}
    | {mark: mark for mark in "bdfhklmnpstvwzg"}
    | {"ˈ": "-", "ˌ": "-", ".": "-", " ": " ", "ː": "", "\u0361": "", "\u0329": ""}
)
_LONGEST = max(map(len, _IPA))


def respelled(phonemes: str) -> str | None:
    """Return a spelling for phonemes of IPA, with a hyphen between syllables.

    Returns:
        ``None`` for a sound that has no spelling, or no phonemes at all.
    """
    spelling, position = "", 0
    while position < len(phonemes):
        for length in range(_LONGEST, 0, -1):
            found = _IPA.get(phonemes[position : position + length])
            if found is not None:
                spelling += found
                position += length
                break
        else:
            return None
    return spelling.strip("- ") or None
