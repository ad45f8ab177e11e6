"""Ages and terms with a short unit: "a 3-mo-old", "6-yr-old", "a 9x13-in. pan", "the 10Y bond"."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..readers import either
from ..spans import SpanClass

_UNITS = {
    "mo": "month", "mos": "month", "yr": "year", "yrs": "year", "wk": "week", "wks": "week",
    "hr": "hour", "hrs": "hour", "min": "minute", "sec": "second", "in": "inch", "ft": "foot",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "mi": "mile", "yd": "yard", "gal": "gallon",
    "qt": "quart", "sq-ft": "square foot", "km": "kilometer", "cm": "centimeter",
    "mm": "millimeter", "kg": "kilogram", "day": "day", "wt": "weight", "yo": "year old",
}  # fmt: skip
_NUMBER = r"\d{1,4}(?:,\d{3})?(?:\.\d{1,2})?"
_ADJECTIVE = re.compile(
    rf"(?<![\w.,-])(?:(?P<low>{_NUMBER})(?P<join>-(?:to-)?|x))?(?P<high>{_NUMBER})-"
    rf"(?P<unit>{either(_UNITS)})\b(?P<stop>\.?)(?P<old>-old(?:s)?\b)?(?!-\d)"
)
_TERM = re.compile(r"(?<![\w.,$€£-])(\d{1,2})(?:Y|-?y/o|yo)\b")
_END = re.compile(r"[\"'”’)]{0,8}(?:\s{1,8}[A-Z]|\s{0,8}\Z)")


def _say(match: re.Match[str]) -> str | None:
    low, join = match["low"], match["join"]
    said = f"{english_number(match['high'])} {_UNITS[match['unit']]}"
    if low:
        said = f"{english_number(low)} {'by' if join == 'x' else 'to'} {said}"
    if match["old"]:
        return f"{said} {match['old'][1:]}{match['stop']}"
    is_end = match["stop"] and _END.match(match.string, match.end())
    return said + ("." if is_end else "")


def _say_term(match: re.Match[str]) -> str:
    number = english_number(match[1])
    return f"{number} year" if match[0].endswith("Y") else f"{number} years old"


TERMS = (
    SpanClass("measures before a noun", _ADJECTIVE, _say),
    SpanClass("terms of years", _TERM, _say_term),
)
