"""A text as words and marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .letters import in_latin_letters
from .word_sets import word_set

_LETTER = "A-Za-zªµºÀ-ÖØ-öø-ɏ\u0300-\u036fͰ-ԯḀ-ỿ\ufb00-\ufb06Ａ-Ｚａ-ｚ"
_APOSTROPHE = "'’‘ʼ‛`´"
_WORD = f"[{_APOSTROPHE}]?[{_LETTER}]+(?:[{_APOSTROPHE}][{_LETTER}]+)*[{_APOSTROPHE}]?"
_TOKEN = re.compile(
    rf"(?P<dotted>(?<![{_LETTER}])(?:[A-Za-z]\.){{2,}})"
    rf"|(?P<word>{_WORD}(?:[-‐‑]{_WORD})*)|(?P<digits>[0-9]+)"
    r"|(?P<ellipsis>…|⋯|\.\.+)|(?P<dash>[—–―]+|--+|(?<!\S)-(?!\S))|(?P<mark>[,.?!;:，。？！；：、])"
)

_MARKS = dict(zip("，。？！；：、", ",.?!;:,", strict=True))
# Words that begin or end with an apostrophe; around others it is a quotation mark.
_BEGINNINGS = word_set(
    "'bout 'cause 'cept 'd 'em 'er 'fraid 'gainst 'll 'm 'mongst 'n 'n' 'neath 'nother 'pon 're "
    "'round 's 'til 'tis 'tude 'twas 'tween 'twere 'twill 'twixt 'twould 'un 've 'cos 'kay"
)
_ENDINGS = ("in'", "s'", "o'", "'n'", "po'", "ol'", "an'", "th'")


@dataclass(frozen=True)
class Token:
    """A word or a mark.

    Attributes:
        start, end: its characters in the text.
        text: a word in ASCII letters, apostrophes and hyphens, or digits, or a mark.
        is_word: digits are words as well.
    """

    start: int
    end: int
    text: str
    is_word: bool


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the words and marks of ``text``. Other characters are not spoken."""
    for found in _TOKEN.finditer(text):
        start, end = found.span()
        kind = found.lastgroup
        if kind == "dotted":
            yield from _dotted(found[0], start, end == len(text))
        elif kind == "word":
            yield from _word(found[0], start)
        elif kind == "digits":
            yield Token(start, end, found[0], True)
        elif kind == "mark":
            yield Token(start, end, _MARKS.get(found[0], found[0]), False)
        else:
            yield Token(start, end, "…" if kind == "ellipsis" else "—", False)


def _dotted(written: str, start: int, ends_text: bool) -> Iterator[Token]:
    """Yield the letters of U.S. as one word; its last dot may be that of the text."""
    letters = written.replace(".", "").upper()
    end = start + len(written)
    if ends_text:
        yield Token(start, end - 1, letters, True)
        yield Token(end - 1, end, ".", False)
    else:
        yield Token(start, end, letters, True)


def _word(written: str, start: int) -> Iterator[Token]:
    end = start + len(written)
    plain = in_latin_letters(written)
    if plain[:1] and plain[0] == written[0].translate(_PLAIN) == "'":
        first = plain.lower().partition("-")[0]
        if first not in _BEGINNINGS:
            plain, start = plain[1:], start + 1
    if plain.endswith("'") and not plain.lower().endswith(_ENDINGS):
        plain, end = plain[:-1], end - 1
    if any(map(str.isalpha, plain)):
        yield Token(start, end, plain, True)


_PLAIN = str.maketrans(dict.fromkeys(_APOSTROPHE, "'"))
