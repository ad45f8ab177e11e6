"""Names with dots in them, such as "2.7.18rc1" and "B.3": the dots end no sentence.

A dot between two letters or digits without a space is a part of a name, unless the words beside it
show that only a space is missing ("left.Then").
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Abbreviations that people write without a space before their number: "p.12", "No.5".
_ABBREVIATION = re.compile(
    r"\A(?:(?i:nos?|vol|pp|fig|chap|ch|sec|art|ca|tel|ext|apt|eq|approx|jan|feb|mar|apr|jun|jul|aug|"
    r"sept?|oct|nov|dec|rs|dr|mrs?|ms|st|vs|e\.g|i\.e)|p|c)\.\d"
)
_ABBREVIATED_END = re.compile(r"\d(?:[ap]\.m|b\.c|a\.d)(?:\.e)?\Z", re.IGNORECASE)
_NEW_SENTENCE = re.compile(r"(?:[a-z]{2}|\d)\.[A-Z][a-z]+\Z")
# Modules of programs, such as "os.path.join" and "n.status", whose parts are no initials.
_MODULE = re.compile(
    r"\A(?:(?:[a-z_]{1,20}|[A-Z][a-z]{1,19}[A-Z][A-Za-z]{1,19})(?:\.[a-z_][A-Za-z_]{1,19}){1,8}|"
    r"(?!i\.e|e\.g)[a-z_]{1,20}(?:\.[a-z_]{1,20}){1,7}\.[A-Z][A-Za-z]{1,19})\Z"
)
# "1.5-2.0km" is an amount.
_AMOUNTS = re.compile(r"\d{1,9}(?:\.\d{1,9})?-\d{1,9}(?:\.\d{1,9})?[A-Za-z]{1,4}[23]?")
# A decimal number with a unit behind it is no name, but one with the mark of a release is.
_RELEASE = re.compile(r"\d(?:rc|a|b|alpha|beta|dev|post|pre)\d", re.IGNORECASE)
_LETTER_AT_DOT = re.compile(r"[A-Za-z][.]|[.][A-Za-z]")
_PIECE = re.compile(r"\d+|[A-Za-z]+|\.|(?<=\d)-(?=\d)")

DOTTED = re.compile(
    r"(?<![\w@/\\$€£¥#~-])(?<![^.]\.)(?<!\A\.)(?=[A-Za-z0-9-]{1,40}\.[A-Za-z0-9])"
    r"[A-Za-z0-9]{1,20}(?:[.-][A-Za-z0-9]{1,20}){1,8}(?![\w@/\\]|[.-]\w|\.-|\(\))",
    re.ASCII,
)


def is_name(written: str) -> bool:
    """Return whether a match of ``DOTTED`` is a name rather than a number, a unit or a sentence."""
    if not (any(map(str.isalpha, written)) and any(map(str.isdigit, written))):
        return _MODULE.match(written) is not None
    if (
        _ABBREVIATION.match(written)
        or _ABBREVIATED_END.search(written)
        or _NEW_SENTENCE.search(written)
        or _AMOUNTS.fullmatch(written)
    ):
        return False
    return (
        _LETTER_AT_DOT.search(written) is not None
        or written.count(".") > 1
        or _RELEASE.search(written) is not None
    )


def say_name(
    written: str, number: Callable[[str], str], point: str, dot: str, dash: str, gap: str
) -> str:
    """Return a name piece by piece.

    Args:
        number: says a run of digits.
        point: stands for a dot before a number.
        dot: stands for a dot before a letter.
        dash: stands for a hyphen between two numbers.
        gap: divides the pieces.
    """
    pieces = _PIECE.findall(written)
    said = []
    for place, piece in enumerate(pieces):
        if piece == "-":
            said.append(dash)
        elif piece == ".":
            said.append(point if pieces[place + 1].isdigit() else dot)
        else:
            said.append(number(piece) if piece.isdigit() else _letters(piece))
    return gap.join(said)


def _letters(piece: str) -> str:
    """Return letters that are a word as they are, and others one by one."""
    if piece.islower() and len(piece) <= 3 and not re.search("[aeiouy]", piece):
        piece = piece.upper()
    return " ".join(piece) if piece.isupper() and len(piece) > 1 else piece
