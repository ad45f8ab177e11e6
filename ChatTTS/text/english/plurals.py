"""Several things whose name ends in digits: "the F-15s", "two 4x4s"; "10s" is a time."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..spans import span
from .codes import say_in_pairs


def _plural(words: str) -> str:
    if words.endswith("y"):
        return f"{words[:-1]}ies"
    return f"{words}{'es' if words.endswith('x') else 's'}"


def _named(match: re.Match[str]) -> str:
    letters, number = match[1], match[2]
    said = say_in_pairs(number) if number[0] != "0" else english_number(number)
    return f"{' '.join(letters)} {_plural(said)}"


def _crossed(match: re.Match[str]) -> str:
    return f"{english_number(match[1])} by {_plural(english_number(match[2]))}"


_MANY = {
    "10": "tens", "100": "hundreds", "1000": "thousands", "10000": "tens of thousands",
    "100000": "hundreds of thousands",
}  # fmt: skip

PLURALS = (
    # "W26s" is a measure.
    span("names in the plural", r"\b(?!W\d)([A-Z]{1,4})-?(\d{1,4})s\b(?!-)", _named),
    span("sizes in the plural", r"(?<![\w.])(\d{1,2})x(\d{1,2})s\b", _crossed),
    span(
        "many",
        r"(?<![\w.,])(?=\d)(10|100|1,?000|10,?000|100,?000)s(?=\sof\b)",
        lambda match: _MANY[match[1].replace(",", "")],
    ),
    span("aircraft", r"(?<![\w.,$])(7\d7)s\b", lambda match: _plural(say_in_pairs(match[1]))),
)
