"""States by their traditional abbreviations and roads: "Boise, Ida.", "(D-Mass.)", "I-95 N"."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..readers import either
from ..spans import span
from .abbreviations import STATES
from .codes import say_in_pairs
from .stops import may_end_sentence

# By their codes.
_TRADITIONAL = {
    "Ala": "AL", "Ariz": "AZ", "Ark": "AR", "Calif": "CA", "Cal": "CA", "Colo": "CO", "Conn": "CT",
    "Del": "DE", "Fla": "FL", "Ga": "GA", "Ida": "ID", "Ill": "IL", "Ind": "IN", "Kan": "KS",
    "Ky": "KY", "La": "LA", "Md": "MD", "Mass": "MA", "Mich": "MI", "Minn": "MN", "Miss": "MS",
    "Mo": "MO", "Mont": "MT", "Neb": "NE", "Nev": "NV", "Okla": "OK", "Ore": "OR", "Pa": "PA",
    "Tenn": "TN", "Tex": "TX", "Vt": "VT", "Va": "VA", "Wash": "WA", "Wis": "WI", "Wyo": "WY",
}  # fmt: skip
_STATES = {
    **{short: STATES[code] for short, code in _TRADITIONAL.items()},
    "Ont": "Ontario", "Que": "Quebec",
}  # fmt: skip
_WAYS = {"N": "north", "S": "south", "E": "east", "W": "west"}


_FLOWN = r"\b(?:[A-Z][A-Z\d]\s?\d{2,4}\s|(?i:flights?|flt|fly|flying|nonstop|fares?|layover)\b)"


def _say_state(match: re.Match[str]) -> str:
    return _STATES[match[1]] + ("." if may_end_sentence(match.string, match.end()) else "")


def _say_road(match: re.Match[str]) -> str:
    letters, number = " ".join(match["road"]), match["number"]
    said = english_number(number) if len(number) < 3 else say_in_pairs(number)
    bound = match["bound"]
    way = f" {_WAYS[bound[0]]}{'bound' if bound[1:] else ''}" if bound else ""
    return f"{letters} {said}{way}"


PLACES = (
    span("routes", r"(?<=\b[A-Z]{3})[-–](?=[A-Z]{3}\b)", " to ", True, _FLOWN),
    span("states", rf"(?:(?<=[a-z.], )|(?<=\b[DRI]-)|(?<=\bof ))({either(_STATES)})\.", _say_state),
    span(
        "seats of a parliament",
        rf"(?<=\([DRI]-)({either(STATES)})(?:-(\d{{1,2}}))?(?=\))",
        lambda match: STATES[match[1]] + (f" {english_number(match[2])}" if match[2] else ""),
        without_digits=True,
    ),
    span("counties", rf"\bCo\.(?=,\s(?:{either(_STATES)}|{either(STATES)})\b)", "county"),
    span("a city in a district", r"\bWash\.(?=,? D\.?C\b)", "Washington"),
    span(
        "roads",
        r"\b(?P<road>(?:I|US)(?=-)|SR|CR)[- ]?(?P<number>\d{1,3})\b(?!-\d)"
        r"(?:\s(?P<bound>[NSEW]B?)\b(?!\.[A-Za-z]))?",
        _say_road,
    ),
)
