"""Pronunciations inside of a text: ``[ipa:təˈmɑːtoʊ|tomato]``.

The marks of Kokoro and misaki, ``[tomato](/təmˈATO/)``, are understood, too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...errors import TextError, shown
from ..respelling import respelled
from .notations import from_ipa, from_pinyin, from_x_sampa

logger = logging.getLogger(__name__)

NOTATIONS: Mapping[str, Callable[[str], str]] = {
    "ipa": from_ipa,
    "x-sampa": from_x_sampa,
    "pinyin": from_pinyin,
}
# The notation, the symbols, and the word that is said so, if it is named; or the word and its
# phonemes, of which one is no letter of English: "[Docs](/en/)" is a link.
MARK = re.compile(
    rf"\[(?:({'|'.join(NOTATIONS)}):([^\[\]|]*)(?:\|([^\[\]]*))?\]"
    r"|([^\[\]|\n]{1,100})\]\(/(?=[^()/\[\]\n]{0,200}[ˈˌːəɪʊɛɔæʌɑɒɜɝɚðθʃʒŋɡɹɾʤʧʔᵊᵻ])"
    r"([^()/\[\]\n]{1,200})/\))"
)
# What misaki writes for two sounds, or for weak ones.
_MISAKI = str.maketrans(
    {"A": "eɪ", "I": "aɪ", "O": "oʊ", "W": "aʊ", "Y": "ɔɪ", "Q": "oʊ", "T": "ɾ", "ᵊ": "ə", "ᵻ": "ɪ"}
)
_AROUND_IPA = "/[] "
_CLOSES_MARKS = str.maketrans("[]|", "   ")


@dataclass(frozen=True)
class Pronunciation:
    """Sounds in one of the notations.

    Attributes:
        notation: ``ipa``, ``x-sampa`` or ``pinyin``.
        symbols: the sounds, written so.
        word: what is said so, as the caller writes it; may be empty.

    Raises:
        TextError: the notation is unknown, or does not have such symbols; the message names them.
    """

    notation: str
    symbols: str
    word: str = ""

    def __post_init__(self) -> None:
        if self.notation not in NOTATIONS:
            known = ", ".join(NOTATIONS)
            raise TextError(f"the notation {shown(self.notation)} is unknown; there are {known}")
        symbols = " ".join(self.symbols.split())
        if self.notation == "ipa":
            symbols = symbols.strip(_AROUND_IPA)
        object.__setattr__(self, "symbols", symbols.replace("|", ""))
        object.__setattr__(self, "word", " ".join(self.word.translate(_CLOSES_MARKS).split()))
        if bad := set("[]") & set(self.symbols):
            raise TextError(f"{shown(self.symbols)} must not have the character {min(bad)}")
        _ = self.phonemes  # raises now

    @classmethod
    def of(cls, mark: re.Match[str]) -> Pronunciation:
        """Return the pronunciation of a match of ``MARK``; raises as the class does."""
        if mark[1] is None:
            return cls("ipa", mark[5].translate(_MISAKI), mark[4])
        return cls(mark[1], mark[2], mark[3] or "")

    @cached_property
    def phonemes(self) -> str:
        """The sounds in the alphabet of the voices."""
        return NOTATIONS[self.notation](self.symbols)

    @property
    def mark(self) -> str:
        """The pronunciation as a text has it."""
        return f"[{self.notation}:{self.symbols}{'|' if self.word else ''}{self.word}]"

    def __str__(self) -> str:
        return f"/{self.symbols}/" if self.notation == "ipa" else self.symbols


def without_symbols(text: str) -> str:
    """Return a text with the words of marks, or their symbols, in place of the marks."""
    return MARK.sub(lambda mark: (mark[4] or mark[3] or mark[2]).strip(), text)


def spelled_out(text: str) -> str:
    """Return ``text`` for a voice that reads letters.

    IPA is respelled. Where that is not possible, the word that a mark names is said, with a
    warning.

    Raises:
        TextError: a mark cannot be read, or it names no word and cannot be respelled.
    """
    return MARK.sub(_spelling, text)


def _spelling(mark: re.Match[str]) -> str:
    if mark[4]:  # of another tool: its word stands in the text
        return mark[4]
    given = Pronunciation.of(mark)
    spelling = respelled(given.symbols) if given.notation == "ipa" else None
    if spelling is not None:
        return spelling
    if not given.word:
        raise TextError(
            f"this voice reads letters, and {shown(str(given))} cannot be respelled: name the word "
            f"as well, such as [{given.notation}:{given.symbols}|word]"
        )
    logger.warning(
        "this voice reads letters, and %s cannot be respelled: %r is spoken as it is written",
        *(shown(str(given)), given.word),
    )
    return given.word
