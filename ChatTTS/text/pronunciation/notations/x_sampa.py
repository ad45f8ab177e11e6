"""X-SAMPA, the ASCII form of IPA, as phonemes of the voices."""

from __future__ import annotations

from ....errors import TextError, shown
from .ipa import from_ipa

# Symbols that differ from their letter in IPA (Wells, "Computer-coding the IPA", 1995).
_SYMBOLS = {
    "A": "ɑ", "B": "β", "C": "ç", "D": "ð", "E": "ɛ", "F": "ɱ", "G": "ɣ", "H": "ɥ", "I": "ɪ",
    "J": "ɲ", "K": "ɬ", "L": "ʎ", "M": "ɯ", "N": "ŋ", "O": "ɔ", "P": "ʋ", "Q": "ɒ", "R": "ʁ",
    "S": "ʃ", "T": "θ", "U": "ʊ", "V": "ʌ", "W": "ʍ", "X": "χ", "Y": "ʏ", "Z": "ʒ", "g": "ɡ",
    "1": "ɨ", "2": "ø", "3": "ɜ", "4": "ɾ", "5": "ɫ", "6": "ɐ", "7": "ɤ", "8": "ɵ", "9": "œ",
    "@": "ə", "{": "æ", "}": "ʉ", "&": "ɶ", "?": "ʔ", "\"": "ˈ", "%": "ˌ", ":": "ː", "r": "r",
    "@\\": "ɘ", "3\\": "ɞ", "h\\": "ɦ", "j\\": "ʝ", "l\\": "ɺ", "p\\": "ɸ",
    "r\\": "ɹ", "r\\`": "ɻ", "s\\": "ɕ", "v\\": "ʋ", "x\\": "ɧ", "z\\": "ʑ", "B\\": "ʙ", "G\\": "ɢ",
    "H\\": "ʜ", "I\\": "ᵻ", "J\\": "ɟ", "K\\": "ɮ", "L\\": "ʟ", "M\\": "ɰ", "N\\": "ɴ", "R\\": "ʀ",
    "U\\": "ᵿ", "X\\": "ħ", "?\\": "ʕ", "d`": "ɖ", "l`": "ɭ", "n`": "ɳ", "r`": "ɽ", "s`": "ʂ",
    "t`": "ʈ", "z`": "ʐ", "@`": "ɚ", "3`": "ɝ", "b_<": "ɓ", "d_<": "ɗ", "g_<": "ɠ",
    ":\\": "ˑ", "_h": "ʰ", "_w": "ʷ", "_j": "ʲ", "'": "ʲ", "_G": "ˠ", "_?\\": "ˤ", "_~": "\u0303",
    "~": "\u0303", "_=": "\u0329", "=": "\u0329", "_^": "\u032f", "`": "˞", "_d": "", "_0": "",
    "_v": "", "_a": "", "_m": "", "_r": "", "_o": "", "_+": "", "_-": "", "_\"": "", "_x": "",
    "_X": "", "_}": "", "_e": "", "_k": "", "_t": "", "_N": "", "_O": "", "_c": "", "_q": "",
    "_A": "", "_T": "˥", "_H": "˦", "_M": "˧", "_L": "˨", "_B": "˩", "-\\": "", "-": "", ".": ".",
    "_F": "˥˩", "_R": "˧˥", "|": "", " ": " ",
}  # fmt: skip
_SYMBOLS |= {letter: letter for letter in "abcdefhijklmnopqstuvwxyz"}
_LONGEST = max(map(len, _SYMBOLS))


def from_x_sampa(text: str) -> str:
    """Return the phonemes of words in X-SAMPA, such as ``h@"loU``.

    It is understood as :func:`.ipa.from_ipa` understands IPA.

    Raises:
        TextError: a symbol is not of X-SAMPA, or has no neighbour among the sounds of the voices.
    """
    ipa = ""
    place = 0
    while place < len(text):
        for size in range(_LONGEST, 0, -1):
            symbol = _SYMBOLS.get(text[place : place + size])
            if symbol is not None:
                ipa += symbol
                place += size
                break
        else:
            raise TextError(
                f"{shown(text[place])} in {shown(text)} is not a symbol of X-SAMPA that the "
                'voices can speak; write sounds of English, such as h@"loU'
            )
    if not ipa.strip():
        raise TextError('the X-SAMPA is empty; write sounds of English, such as h@"loU')
    return from_ipa(ipa)
