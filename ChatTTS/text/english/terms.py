"""Ages and terms with a short unit: "a 3-mo-old", "6-yr-old", "a 9x13-in. pan", "the 10Y bond"."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..readers import either
from ..spans import span
from .measures import DIVISORS
from .stops import may_end_sentence

_UNITS = DIVISORS | {
    "in": "inch", "sq-ft": "square foot", "wt": "weight", "yo": "year old", "pt": "point",
}  # fmt: skip
_NUMBER = r"\d{1,4}(?:,\d{3})?(?:\.\d{1,2})?"
_ADJECTIVE = re.compile(
    rf"(?<![\w.,/-])(?:(?P<low>{_NUMBER})(?P<join>-(?:to-)?|x))?(?P<high>{_NUMBER})-"
    rf"(?P<unit>{either(_UNITS)})\b(?P<stop>\.?)(?P<old>-old(?:s)?\b)?(?!-\d)"
)
_TERM = re.compile(r"(?<![\w.,$€£-])(\d{1,2})Y\b")
_AGE = re.compile(
    r"(?<![\w.,$€£-])(?P<age>\d{1,3})[\s-]?(?:y/o\b|yo\b|y\.o\.)(?!-)"
    r"(?P<noun>(?=\s(?!(?:and|or|with|who|when|at|in|on|is|was|now|here|he|she|it)\b|w/)[A-Za-z]))?"
)
_ROOMS = {"BR": "bedroom", "BD": "bedroom", "BA": "bath"}


def _say(match: re.Match[str]) -> str | None:
    low, join = match["low"], match["join"]
    said = f"{english_number(match['high'])} {_UNITS[match['unit']]}"
    if low:
        said = f"{english_number(low)} {'by' if join == 'x' else 'to'} {said}"
    if match["old"]:
        return f"{said} {match['old'][1:]}{match['stop']}"
    is_end = match["stop"] and may_end_sentence(match.string, match.end())
    return said + ("." if is_end else "")


TERMS = (
    span(
        "ages",
        _AGE,
        lambda match: f"{english_number(match[1])} year{'' if match[2] is not None else 's'} old",
    ),
    span("measures before a noun", _ADJECTIVE, _say),
    span("terms of years", _TERM, lambda match: f"{english_number(match[1])} year"),
    span(
        "rooms of a home",
        rf"(?<![\w.])(\d{{1,2}}(?:\.5)?)\s?({either(_ROOMS)})\b/?",
        lambda match: f"{english_number(match[1])} {_ROOMS[match[2]]} ",
    ),
)
