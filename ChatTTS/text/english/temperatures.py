"""Temperatures without the sign of a degree: "38.5C", "a high of 72F", "350F"."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..spans import before, span

_SCALES = {"C": "Celsius", "F": "Fahrenheit"}
_CONTEXT = re.compile(
    r"\b(?:fever|temp(?:erature)?s?|highs?|lows?|oven|heat(?:ed)?|cool(?:ed)?|warm(?:ed)?|"
    r"freez\w{1,5}|boil\w{0,4}|bak\w{1,3}|preheat(?:ed)?|water|feels like|degrees|"
    r"it(?:'s| is| was))\b[^.!?\d]{0,24}\Z",
    re.IGNORECASE,
)


def _say(match: re.Match[str]) -> str | None:
    number, scale = match["number"], match["scale"]
    is_plain = "." in number or (scale == "F" and (len(number) == 3 or match["minus"]))
    if not (is_plain or _CONTEXT.search(before(match))):
        return None
    minus = "minus " if match["minus"] else ""
    unit = "degree" if number == "1" else "degrees"
    return f"{minus}{english_number(number)} {unit} {_SCALES[scale]}"


TEMPERATURES = (
    span(
        "temperatures",
        r"(?<![\w./$€£-])(?P<minus>[-−])?(?P<number>\d{1,3}(?:\.\d{1,2})?)\s?(?P<scale>[CF])"
        r"(?![\w'’/+#-])",
        _say,
    ),
)
