"""Symbols of IPA and the phonemes of the voices that are nearest to them.

All symbols are decomposed (NFD), and have no ties, as :data:`DROPPED` removes them.
"""

from __future__ import annotations

from collections.abc import Mapping

# Ties, dots and hyphens between syllables, brackets around what may be left out, and diacritics of
# differences that the voices do not make.
DROPPED = str.maketrans(
    {"g": "ɡ", ":": "ː", "'": "ˈ", "’": "ˈ", "˞": "ɹ", "ʻ": "ʰ", "ꜛ": "", "ꜜ": "", "ˑ": ""}
    | dict.fromkeys("͜͡.‿()-|‖·", "")
    | dict.fromkeys("\u032a\u033a\u033b\u0325\u030a\u032c\u031d\u031e\u031f\u0320\u0318\u0319", "")
    | dict.fromkeys("\u0339\u031c\u031a\u0306\u0324\u0330\u033c\u0334\u0308\u033d\u0348", "")
    | dict.fromkeys("\u0300\u0301\u0302\u0304\u030c\u030b\u030f", "")
    | dict.fromkeys("ˠˤʷˀʱⁿˡ", "")
)

STRESSES = {"ˈ": "ˈ", "ˌ": "ˌ"}
VOWELS = frozenset("AIOWYɑɔɛɜɪʊʌæəiuyᵊᵻɤ")

_NONSYLLABIC = "\u032f"
_SYLLABIC = "\u0329"
_NASAL = "\u0303"

_DIPHTHONGS = {
    "A": "eɪ ei ej eː",
    "I": "aɪ ai aj ɑɪ ɑi",
    "O": "oʊ ou əʊ əu oː ɵʊ o ɤʊ",
    "W": "aʊ au aw ɑʊ ɑu æʊ",
    "Y": "ɔɪ oɪ oi ɔi",
}
_MONOPHTHONGS = {
    "i": "i iː",
    "u": "u uː ʉ ʉː ɯ ɯː",
    "ɑ": "ɑ ɑː ɒ ɒː a aː",
    "ɔ": "ɔ ɔː",
    "ɜɹ": "ɜː ɜːɹ ɜɹ ɝ ɝː ɝɹ ɜ ɜr ɜːr ɝr",
    "əɹ": "ɚ əɹ ər ɚɹ ɚr",
    "ɪɹ": "ɪə ɪəɹ ɪər ɪɹ ɪr iɹ ir",
    "ɛɹ": "eə ɛə eəɹ ɛəɹ eər ɛər ɛː ɛːɹ ɛːr eɹ er ɛɹ ɛr",
    "ʊɹ": "ʊə ʊəɹ ʊər ʊɹ ʊr uɹ ur",
    "ɪ": "ɪ ɪ\u0308 ɪː",
    "ᵻ": "ᵻ ɨ",
    "ʊ": "ʊ ᵿ ʊː",
    "ɛ": "ɛ e",
    "æ": "æ æː",
    "ʌ": "ʌ ɐ ʌː ɐː",
    "ə": "ə ɘ ɵ ɞ ø œ ɶ əː øː œː",
    "ᵊ": "ᵊ",
    "y": "y yː ʏ",
    "ɤ": "ɤ",
}
_CONSONANTS = {
    **{sound: sound for sound in "bdfhjklmnpstvwzðŋɡɥɹʃʒθʤʧɕʂʦʨꭧ"},
    "ʤ": "dʒ dʑ ʥ ɖʐ ɖʒ ʤ",
    "ʧ": "tʃ ʧ",
    "ʦ": "ts ʦ",
    "ʨ": "tɕ ʨ",
    "ꭧ": "tʂ ʈʂ ꭧ",
    "dz": "dz ʣ",
    "T": "ɾ T",
    "ɹ": "ɹ r ɻ ʀ ʁ ɽ ɺ ɹː rː",
    "tn": "ʔn",
    "": "ʔ ʕ ʢ ʡ ʰ ː",
    "b": "b ɓ ʙ bː",
    "d": "d ɗ ɖ dː",
    "ɡ": "ɡ ɠ ɟ ɢ ɣ ɡː",
    "k": "k c q kː cː",
    "t": "t ʈ tː",
    "f": "f ɸ",
    "v": "v β ʋ ⱱ",
    "h": "h ħ ɦ ʜ",
    "x": "x χ",
    "ɕ": "ɕ ç",
    "ʃ": "ʃ ɧ",
    "ʒ": "ʒ ʐ ʑ",
    "j": "j ʝ ʲ",
    "w": "w ʍ ɰ",
    "l": "l ɫ ɬ ɮ ɭ ʟ",
    "lj": "ʎ",
    "m": "m ɱ",
    "n": "n ɳ",
    "nj": "ɲ",
    "ŋ": "ŋ ɴ",
    "ᵊn": f"n{_SYLLABIC}",
    "ᵊm": f"m{_SYLLABIC}",
    "ᵊl": f"l{_SYLLABIC} ɫ{_SYLLABIC}",
    "əɹ": f"ɹ{_SYLLABIC} r{_SYLLABIC}",
    "tᵊn": f"ʔn{_SYLLABIC}",
}


def _by_symbol(*tables: Mapping[str, str]) -> dict[str, str]:
    return {
        symbol: sound
        for table in tables
        for sound, symbols in table.items()
        for symbol in symbols.split()
    }


_VOWEL_SYMBOLS = _by_symbol(_MONOPHTHONGS, _DIPHTHONGS)
ENGLISH: Mapping[str, str] = (
    _by_symbol(_CONSONANTS)
    | _VOWEL_SYMBOLS
    | {symbol + _NONSYLLABIC: sound for symbol, sound in _VOWEL_SYMBOLS.items()}
    # A nasal vowel is one with the sound of "n" behind it.
    | {symbol + _NASAL: f"{sound}n" for symbol, sound in _VOWEL_SYMBOLS.items()}
    | {sound: sound for sound in "AIOWY"}
    | STRESSES
    | {f"i{_NONSYLLABIC}": "j", f"u{_NONSYLLABIC}": "w", _NONSYLLABIC: "", _SYLLABIC: ""}
)

_MANDARIN_VOWELS = {
    "ai": "ai aɪ ɑɪ",
    "au": "au aʊ ɑʊ ɑu",
    "ei": "ei eɪ",
    "ou": "ou oʊ əʊ ɤʊ əu",
    "a": "a ɑ ɐ ä",
    "ɤ": "ɤ ʌ ɯʌ ɤʌ",
    "ə": "ə",
    "ɚ": "ɚ ɑɻ aɚ ɑɹ əɻ aɻ əɹ",
    "ɛ": "ɛ æ",
    "e": "e",
    "i": "i ɪ",
    "u": "u",
    "o": "o",
    "ɔ": "ɔ",
    "ʊ": "ʊ",
    "y": "y",
    "ɨ": f"ɨ ɿ ʅ ɹ{_SYLLABIC} ɻ{_SYLLABIC} ʐ{_SYLLABIC} z{_SYLLABIC} ɯ",
    # Glides before another vowel.
    **{f"j{vowel}": f"i{vowel}" for vowel in ("a", "ɑ", "ɛ", "e", "ʊ", "ɔ", "o")},
    **{f"w{vowel}": f"u{vowel}" for vowel in ("a", "ɑ", "ə", "o", "ɔ", "e")},
    **{f"ɥ{vowel}": f"y{vowel}" for vowel in ("ɛ", "e", "æ")},
}
_MANDARIN_CONSONANTS = {
    **{sound: sound for sound in "pfmtnlkxsjw"},
    "ʰ": "ʰ ˈ",
    "p": "p b b\u0325",
    "t": "t d",
    "k": "k ɡ",
    "x": "x h χ",
    "ʨ": "tɕ ʨ dʑ",
    "ʦ": "ts ʦ dz",
    "ꭧ": "tʂ ʈʂ ꭧ ɖʐ",
    "ɕ": "ɕ",
    "ʂ": "ʂ",
    "ɻ": "ɻ ʐ ɹ r",
    "ŋ": "ŋ",
    "ɥ": "ɥ",
    "": "ʔ ˌ ː",
}
_MANDARIN_SYMBOLS = _by_symbol(_MANDARIN_CONSONANTS, _MANDARIN_VOWELS)
MANDARIN: Mapping[str, str] = (
    {symbol + _NONSYLLABIC: sound for symbol, sound in _MANDARIN_SYMBOLS.items()}
    | _MANDARIN_SYMBOLS
    | {f"i{_NONSYLLABIC}": "j", f"u{_NONSYLLABIC}": "w", f"y{_NONSYLLABIC}": "ɥ"}
    | {f"{a}{_NONSYLLABIC}": b for a, b in (("aɪ", "ai"), ("ɑʊ", "au"), ("eɪ", "ei"), ("oʊ", "ou"))}
    | {_NONSYLLABIC: "", _SYLLABIC: ""}
)
