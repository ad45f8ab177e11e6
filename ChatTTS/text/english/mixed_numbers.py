"""Whole numbers with a fraction behind a hyphen, and parts of an inch: "2-1/2 years", '1/4"'."""

from __future__ import annotations

import re

from ..number_words import english_number, english_ordinal
from ..spans import span
from .fractions import say_mixed

_PARTS = r"(?P<above>\d{1,2})/(?P<below>2|3|4|5|6|8|10|12|16|32|64)(?!\d|/|\.\d)"
_INCH = (
    r"(?:\s?\"(?![\w\"])|[\s-]?(?:in\.(?=\s[a-z])|inch(?:es)?\b|"
    r"in\b(?!\s(?:\d|(?:the|a|an|this|my)\b))))"
)
_NOUN = re.compile(
    r"\s?(?!(?:and|or|by|x|to|of|from|in|at|on|wide|long|tall|high|deep|thick|apart|above|below|is|was|"
    r"here|there)\b)[a-z]"
)


def _say(match: re.Match[str]) -> str | None:
    above, below = int(match["above"]), int(match["below"])
    if above >= below:
        return None
    whole = match["whole"]
    said = say_mixed(whole, above, below)
    if match["side"]:
        said = f"{english_number(match['side'])} by {said}"
    if match["inch"] is None:
        return said
    if _NOUN.match(match.string, match.end()):
        return f"{said} inch"  # "a 1/4" bolt"
    return f"{said} inches" if whole else f"{said} of an inch"


MIXED_NUMBERS = (
    span(
        "parts of an inch",
        rf"(?<![\w/.,])(?:(?P<side>\d{{1,3}})\s?x\s?)?(?:(?P<whole>\d{{1,3}})(?:-|\s))?"
        rf"{_PARTS}(?P<inch>{_INCH})",
        _say,
    ),
    span(
        "parts of a second",
        r"(?<![\w/.,])1/(\d{2,5})\s?(?:s|sec)\b(?!\w)",
        lambda match: f"one {english_ordinal(match[1])} of a second",
    ),
    span(
        "mixed numbers",
        rf"(?<![\w/.,-])(?:(?P<side>\d{{1,3}})\s?x\s?)?(?P<whole>\d{{1,3}})-{_PARTS}"
        r"(?P<inch>(?!))?",
        _say,
    ),
)
