"""Fractions, ratings and other numbers with a slash; dates, and sayings such as 24/7, stay."""

from __future__ import annotations

import re

from ..number_words import english_number, english_ordinal
from ..spans import span
from .measures import UNIT

_DENOMINATORS = "2|3|4|5|6|7|8|9|10|12|16|20|32|64|100"
_UNIT_NEXT = re.compile(rf"\s?(?:{UNIT})(?![\w'/])")
_DASH = r"\s?[-–—]\s?"
_PARTS = {2: ("half", "halves"), 4: ("quarter", "quarters")}


def _fraction(match: re.Match[str]) -> str | None:
    """Return a fraction, with the dash of a range beside it: "1/3-1/2", "3-4 1/2"."""
    above, below = int(match["above"]), int(match["below"])
    if above >= below:
        return None
    said = say_mixed(match["whole"], above, below)
    return f"{' to ' if match['from'] else ''}{said}{' to ' if match['to'] else ''}"


def _mixed(match: re.Match[str]) -> str:
    whole, above, below = match.groups()
    said = (
        say_parts(int(above), int(below))
        if 2 <= int(below) <= 10 and int(below) != 7
        else f"{english_number(above)} over {english_number(below)}"
    )
    return f"{english_number(whole)} and {said}"


def say_mixed(whole: str | None, above: int, below: int) -> str:
    """Return "two and a half" for 2, 1 and 2; without a whole number, the parts alone."""
    parts = "a half" if whole and below == 2 else say_parts(above, below)
    return f"{english_number(whole)} and {parts}" if whole else parts


def say_parts(above: int, below: int) -> str:
    """Return "three quarters" for 3 and 4."""
    ordinal = english_ordinal(str(below))
    one, many = _PARTS.get(below, (ordinal, f"{ordinal}s"))
    if below == 100:
        one, many = f"one {one}", f"one {many}"
    return f"{english_number(str(above))} {one if above == 1 else many}"


def _quotient(match: re.Match[str]) -> str:
    """Return "ninety over forty", and of "28/35 mpg" two values of one measure."""
    between = "," if _UNIT_NEXT.match(match.string, match.end()) else " over"
    return f"{english_number(match[1])}{between} {english_number(match[2])}"


FRACTIONS = (
    # 8/10, 4.5/5, 3/5 stars
    span(
        "ratings",
        r"(?<![\w/.,^])(?:(10|[2-9]|\d\.\d)/10|(\d\.\d)/5|([0-5])/5(?=\s(?:stars?|points?)\b))"
        r"(?![\w/]|\.\d|\s(?:of|inch|mile|second|s)\b)",
        lambda match: f"{match[1] or match[2] or match[3]} out of {match[0].split('/')[1]}",
    ),
    span(
        "fractions",
        rf"(?:(?<=\d)(?P<from>{_DASH}))?(?<![\w/.,^])(?:(?P<whole>\d{{1,20}})\s{{1,8}})?"
        rf"(?P<above>\d{{1,20}})/(?P<below>{_DENOMINATORS})(?i:st|nd|rd|th)?(?![\d/]|\.\d)"
        rf"(?P<to>{_DASH}(?=\d))?",
        _fraction,
    ),
    span("mixed numbers", r"(?<![\w/.,^])(\d{1,3}) (\d{1,3})/(\d{1,3})(?![\w/]|\.\d)", _mixed),
    # A numerator up to twelve may be a month.
    span(
        "parts",
        r"(?<![\w/.,^])(1[3-9]|[2-9]\d)/([34568])(?![\w/]|\.\d)",
        lambda match: say_parts(int(match[1]), int(match[2])),
    ),
    span(
        "quotients",
        r"(?<![\w/.,^])(\d{1,6})\s?/\s?(3[3-9]|4\d|5[1-9]|[6-9]\d|\d{3,6})(?![\w/]|\.\d)",
        _quotient,
    ),
)
