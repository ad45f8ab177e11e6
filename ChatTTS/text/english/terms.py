"""Ages and terms with a short unit: "a 3-mo-old", "6-yr-old", "a 9x13-in. pan", "the 10Y bond"."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..readers import either
from ..spans import span
from .stops import may_end_sentence

_UNITS = {
    "mo": "month", "mos": "month", "yr": "year", "yrs": "year", "wk": "week", "wks": "week",
    "hr": "hour", "hrs": "hour", "min": "minute", "sec": "second", "in": "inch", "ft": "foot",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "mi": "mile", "yd": "yard", "gal": "gallon",
    "qt": "quart", "sq-ft": "square foot", "km": "kilometer", "cm": "centimeter",
    "mm": "millimeter", "kg": "kilogram", "day": "day", "wt": "weight", "yo": "year old",
    "pt": "point",
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


def _say_age(match: re.Match[str]) -> str:
    return f"{english_number(match['age'])} year{'' if match['noun'] is not None else 's'} old"


TERMS = (
    span("measures before a noun", _ADJECTIVE, _say),
    span("terms of years", _TERM, lambda match: f"{english_number(match[1])} year"),
    span("ages", _AGE, _say_age),
    span(
        "rooms of a home",
        rf"(?<![\w.])(\d{{1,2}}(?:\.5)?)\s?({either(_ROOMS)})\b/?",
        lambda match: f"{english_number(match[1])} {_ROOMS[match[2]]} ",
    ),
)
