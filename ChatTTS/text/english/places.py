"""States by their traditional abbreviations and roads: "Boise, Ida.", "(D-Mass.)", "I-95 N"."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..readers import either
from ..spans import span
from .abbreviations import STATES
from .codes import say_in_pairs
from .stops import may_end_sentence

_STATES = {
    "Ala": "Alabama", "Ariz": "Arizona", "Ark": "Arkansas", "Calif": "California",
    "Cal": "California", "Colo": "Colorado", "Conn": "Connecticut", "Del": "Delaware",
    "Fla": "Florida", "Ga": "Georgia", "Ida": "Idaho", "Ill": "Illinois", "Ind": "Indiana",
    "Kan": "Kansas", "Ky": "Kentucky", "La": "Louisiana", "Md": "Maryland",
    "Mass": "Massachusetts", "Mich": "Michigan", "Minn": "Minnesota", "Miss": "Mississippi",
    "Mo": "Missouri", "Mont": "Montana", "Neb": "Nebraska", "Nev": "Nevada", "Okla": "Oklahoma",
    "Ore": "Oregon", "Pa": "Pennsylvania", "Tenn": "Tennessee", "Tex": "Texas", "Vt": "Vermont",
    "Va": "Virginia", "Wash": "Washington", "Wis": "Wisconsin", "Wyo": "Wyoming",
    "Ont": "Ontario", "Que": "Quebec",
}  # fmt: skip
_WAYS = {"N": "north", "S": "south", "E": "east", "W": "west"}


def _say_state(match: re.Match[str]) -> str:
    return _STATES[match[1]] + ("." if may_end_sentence(match.string, match.end()) else "")


def _say_seat(match: re.Match[str]) -> str:
    return STATES[match[1]] + (f" {english_number(match[2])}" if match[2] else "")


def _say_road(match: re.Match[str]) -> str:
    letters, number = " ".join(match["road"]), match["number"]
    said = english_number(number) if len(number) < 3 else say_in_pairs(number)
    bound = match["bound"]
    way = f" {_WAYS[bound[0]]}{'bound' if bound[1:] else ''}" if bound else ""
    return f"{letters} {said}{way}"


PLACES = (
    span("states", rf"(?:(?<=[a-z.], )|(?<=\b[DRI]-)|(?<=\bof ))({either(_STATES)})\.", _say_state),
    span(
        "seats of a parliament",
        rf"(?<=\([DRI]-)({either(STATES)})(?:-(\d{{1,2}}))?(?=\))",
        _say_seat,
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
