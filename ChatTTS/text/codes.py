"""Read numbers that are names rather than amounts, in English: codes, addresses, rooms, flights."""

from __future__ import annotations

import re

from .numbers import english_digits, english_number

_IP = re.compile(r"(?<![A-Za-z0-9.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\w.]*\w)")
_VANITY = re.compile(r"\b1-(8\d\d)-((?:[A-Z0-9]+-)*[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*)\b")
_SPELLED = re.compile(
    r"\b((?:(?:dial|call|text)|ending in|(?:zip|area|access|country|PIN|pin|OTP|CVV|otp)"
    r"(?: code)?(?: is)?|code(?: is)?|PIN(?: is)?)\s)(\d{3,6})(?![\w%]|[.,:/-]\d)",
)
_PAIRED = re.compile(
    r"\b((?:Boeing|Airbus|Flight|Route|Highway|Interstate|Room|Suite|Gate|Apartment|Building|"
    r"[Ff]light|[Rr]oom|[Rr]oute)\s)([1-9])(\d)(\d)(?![\w%]|[.,:/-]\d)"
)
_RETIREMENT = re.compile(r"\b40([13])\s?\(([kb])\)")
_SCALED = re.compile(r"(?<![\w.$€£])(\d+(?:\.\d+)?)([kMB])(?=\s[a-z]+s\b)")
_PAGE = re.compile(r"\b([Pp]age \d+)/(?=\d)")
_DOT_NET = re.compile(r"(?<!\w)\.(?=NET\b)")
_QUARTER = re.compile(r"\b([1-4])Q\s?(\d\d|20\d\d)\b")
_QUARTERS = ("first", "second", "third", "fourth")
_SPLIT = re.compile(r"\bFY(?=\d)|\b[Mm][Pp](?=[34]\b)")
_SCALES = {"k": "thousand", "M": "million", "B": "billion"}


def read_codes(text: str) -> str:
    """Return ``text`` with codes digit by digit, and numbers of rooms and the like in pairs."""
    text = _IP.sub(lambda match: " dot ".join(map(english_digits, match.groups())), text)
    text = _VANITY.sub(_vanity, text)
    text = _SPELLED.sub(lambda match: match[1] + english_digits(match[2]), text)
    text = _PAIRED.sub(_paired, text)
    text = _DOT_NET.sub("dot ", text)
    text = _QUARTER.sub(
        lambda match: f"the {_QUARTERS[int(match[1]) - 1]} quarter of {match[2]}", text
    )
    text = _PAGE.sub(r"\1 of ", text)
    text = _SPLIT.sub(lambda match: f"{' '.join(match[0].upper())} ", text)
    text = _RETIREMENT.sub(lambda match: f"four o {english_number(match[1])} {match[2]}", text)
    return _SCALED.sub(lambda match: f"{match[1]} {_SCALES[match[2]]}", text)


def _vanity(match: re.Match[str]) -> str:
    """Return a telephone number with a word in it; the word stays one."""
    return f"one, {english_digits(match[1])}, {match[2].replace('-', ' ')}"


def _paired(match: re.Match[str]) -> str:
    """Return a number of three digits as it names a place: 747 is "seven forty seven"."""
    noun, first, second, third = match.groups()
    if second == third == "0":
        return match[0]
    rest = f"o {english_number(third)}" if second == "0" else english_number(second + third)
    return f"{noun}{english_number(first)} {rest}"
