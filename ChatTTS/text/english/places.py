"""States, roads and runways: "Boise, Ida.", "(D-Mass.)", "TX 78701", "I-95 N", "RWY 13R"."""

from __future__ import annotations

import re

from ..number_words import english_digits, english_number
from ..readers import either
from ..spans import span
from .codes import say_in_pairs
from .coordinates import WAYS
from .stops import may_end_sentence

STATES = {
    "AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California",
    "CO": "Colorado", "CT": "Connecticut", "DE": "Delaware", "FL": "Florida", "GA": "Georgia",
    "HI": "Hawaii", "ID": "Idaho", "IL": "Illinois", "IN": "Indiana", "IA": "Iowa",
    "KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana", "ME": "Maine", "MD": "Maryland",
    "MA": "Massachusetts", "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi",
    "MO": "Missouri", "MT": "Montana", "NE": "Nebraska", "NV": "Nevada", "NH": "New Hampshire",
    "NJ": "New Jersey", "NM": "New Mexico", "NY": "New York", "NC": "North Carolina",
    "ND": "North Dakota", "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon", "PA": "Pennsylvania",
    "RI": "Rhode Island", "SC": "South Carolina", "SD": "South Dakota", "TN": "Tennessee",
    "TX": "Texas", "UT": "Utah", "VT": "Vermont", "VA": "Virginia", "WA": "Washington",
    "WV": "West Virginia", "WI": "Wisconsin", "WY": "Wyoming", "DC": "D C",
}  # fmt: skip
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
_SIDES = {"L": "left", "R": "right", "C": "center"}
_CODES = either(STATES)
_FLOWN = r"\b(?:[A-Z][A-Z\d]\s?\d{2,4}\s|(?i:flights?|flt|fly|flying|nonstop|fares?|layover)\b)"


def _say_state(match: re.Match[str]) -> str:
    return _STATES[match[1]] + ("." if may_end_sentence(match.string, match.end()) else "")


def _say_road(match: re.Match[str]) -> str:
    letters, number = " ".join(match["road"]), match["number"]
    said = english_number(number) if len(number) < 3 else say_in_pairs(number)
    bound = match["bound"]
    way = f" {WAYS[bound[0]]}{'bound' if bound[1:] else ''}" if bound else ""
    return f"{letters} {said}{way}"


def _say_mail(match: re.Match[str]) -> str:
    rest = f", {english_digits(match[3])}" if match[3] else ""
    return f"{STATES[match[1]]} {english_digits(match[2])}{rest}"


PLACES = (
    span(
        "codes of places",
        rf"(?:(?<=, )|(?<=[a-z] ))({_CODES})\.?,?\s(\d{{5}})(?:-(\d{{4}}))?(?![\d,.]*\d)",
        _say_mail,
    ),
    # The letters of some are words or names, too.
    *(
        span(
            "states by their codes",
            rf"(?<=[a-z], )(?!{words})({_CODES})(?=$|[.,;:)])",
            lambda match: STATES[match[0]],
            behind=town,
        )
        for words, town in (
            ("IN|OR|ME|OK|HI|OH", r"\b[A-Z][a-z]{3,}, \Z"),
            ("IN|OR|ME|OK|HI|OH|PA|MA|ID|AL|DE", None),
        )
    ),
    span("routes", r"(?<=\b[A-Z]{3})[-–](?=[A-Z]{3}\b)", " to ", True, _FLOWN),
    span("states", rf"(?:(?<=[a-z.], )|(?<=\b[DRI]-)|(?<=\bof ))({either(_STATES)})\.", _say_state),
    span(
        "seats of a parliament",
        rf"(?<=\([DRI]-)({_CODES})(?:-(\d{{1,2}}))?(?=\))",
        lambda match: STATES[match[1]] + (f" {english_number(match[2])}" if match[2] else ""),
        without_digits=True,
    ),
    span("counties", rf"\bCo\.(?=,\s(?:{either(_STATES)}|{_CODES})\b)|\bCo\.(?=\sR[do])", "county"),
    span("a city in a district", r"\bWash\.(?=,? D\.?C\b)", "Washington"),
    span(
        "runways",
        r"(?<!\w)(?P<number>0?[1-9]|[12]\d|3[0-6])(?P<side>[LRC])\b(?P<other>/(?=\d))?",
        lambda match: (
            f"{english_digits(match['number'])} {_SIDES[match['side']]}"
            f"{', ' if match['other'] else ''}"
        ),
        behind=r"\b(?:R(?:UN)?WA?YS?|[Rr]unways?)\s(?:\d{1,2}[LRC](?:/|, | and ))?\Z",
    ),
    span(
        "ways of a road",
        r"(?<=\d\s)([NSEW])(B?)\b(?!\.[A-Za-z])",
        lambda match: WAYS[match[1]] + ("bound" if match[2] else ""),
        behind=r"\b(?:Hwy|Highway|Rte?|Route|Interstate|Rd)\.?\s\d{1,3}\s\Z",
    ),
    span(
        "roads",
        r"\b(?P<road>(?:I|US)(?=-)|SR|CR)[- ]?(?P<number>\d{1,3})\b(?!-\d)"
        r"(?:\s(?P<bound>[NSEW]B?)\b(?!\.[A-Za-z]))?",
        _say_road,
    ),
)
