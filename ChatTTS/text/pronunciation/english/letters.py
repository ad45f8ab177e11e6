"""Letters that are not spoken as a word: their names, and other alphabets in Latin letters."""

from __future__ import annotations

import unicodedata

from .stress import weakened

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NAMES = (
    "ˈA bˈi sˈi dˈi ˈi ˈɛf ʤˈi ˈAʧ ˈI ʤˈA kˈA ˈɛl ˈɛm ˈɛn ˈO pˈi kjˈu ˈɑɹ ˈɛs tˈi jˈu vˈi "
    "dˈʌbᵊlju ˈɛks wˈI zˈi"
)
_GREEK = "αβγδεζηθικλμνξοπρσςτυφχψω"
_GREEK_IN_LATIN = "a v g d e z i th i k l m n x o p r s s t i f h ps o"
_CYRILLIC = "абвгдежзийклмнопрстуфхцчшщыэюяіїєґ"
_CYRILLIC_IN_LATIN = (
    "a b v g d e zh z i y k l m n o p r s t u f kh ts ch sh shch y e yu ya i yi ye g"
)

NAMES = dict(zip(_LETTERS, _NAMES.split(), strict=True))

_OTHER = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "ł": "l",
    "đ": "d",
    "ð": "th",
    "þ": "th",
    "ı": "i",
}
_LATIN = (
    _OTHER
    | dict(zip(_GREEK, _GREEK_IN_LATIN.split(), strict=True))
    | dict(zip(_CYRILLIC, _CYRILLIC_IN_LATIN.split(), strict=True))
)
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ‛`´", "'"))
_HYPHENS = str.maketrans(dict.fromkeys("‐‑", "-"))


def spelled(letters: str) -> str:
    """Return the names of ``letters`` (a to z, in any case), the last one with the stress."""
    names = [NAMES[letter] for letter in letters.lower()]
    return "".join([*map(weakened, names[:-1]), *names[-1:]])


def in_latin_letters(word: str) -> str:
    """Return ``word`` in a to z, apostrophes and hyphens, with its capitals.

    Accents are dropped, Greek and Cyrillic letters replaced. What remains is left out.
    """
    word = word.translate(_APOSTROPHES).translate(_HYPHENS)
    if word.isascii():
        return word
    plain = unicodedata.normalize(
        "NFKD", "".join(map(_replaced, unicodedata.normalize("NFKC", word)))
    )
    return "".join(map(_replaced, plain)).encode("ascii", "ignore").decode()


def _replaced(letter: str) -> str:
    text = _LATIN.get(letter.lower(), letter)
    return text.capitalize() if text != letter and letter.isupper() else text
