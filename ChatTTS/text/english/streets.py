"""Street addresses and kinds of streets behind a name: "221B Baker St.", "on Elm Dr."."""

from __future__ import annotations

import re

from ..number_words import english_ordinal
from ..spans import span
from .codes import say_in_pairs
from .coordinates import WAYS
from .stops import may_end_sentence

_STREETS = {
    "St": "street", "Ave": "avenue", "Blvd": "boulevard", "Rd": "road", "Dr": "drive",
    "Ln": "lane", "Ct": "court", "Pl": "place", "Sq": "square", "Hwy": "highway",
    "Expy": "expressway", "Pkwy": "parkway", "Ter": "terrace", "Cir": "circle",
}  # fmt: skip
_KIND = "|".join(_STREETS)
_FULL_KIND = "|".join(map(str.title, _STREETS.values())) + "|Way|Row"
_ADDRESS = re.compile(
    rf"(?<![\w.,])(?P<number>\d{{1,5}})(?P<letter>[A-Z]?)\s(?:(?P<way>[NSEW]\.?)\s)?"
    rf"(?P<rest>(?:(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th))\s){{1,3}})"
    rf"(?P<kind>(?i:{_KIND})|{_FULL_KIND})\b(?P<stop>\.?)(?!\w)"
)


def _address(match: re.Match[str]) -> str:
    """Return an address: its number in pairs, the direction, and the kind of street."""
    number = match["number"]
    number = say_in_pairs(number) if len(number) in (3, 4) and number[-2] != "0" else number
    way = f"{WAYS[match['way'][0]].title()} " if match["way"] else ""
    letter = f" {match['letter']}" if match["letter"] else ""
    rest = re.sub(r"\d\w+", lambda ordinal: english_ordinal(ordinal[0]), match["rest"])
    return f"{number}{letter} {way}{rest}{_kind(match)}"


def _kind(match: re.Match[str]) -> str:
    kind = _STREETS.get(match["kind"].capitalize(), match["kind"])
    is_end = match["stop"] and may_end_sentence(match.string, match.end())
    return kind + ("." if is_end else "")


STREETS = (
    span("street addresses", _ADDRESS, _address),
    # A capital after it would make it "saint" or "doctor" of the next name.
    span(
        "kinds of streets",
        rf"\b(?P<kind>{_KIND})(?:(?P<stop>\.)(?!\s[A-Z]|\w)|(?=,|$))",
        _kind,
        behind=r"\b(?!Mount|Fort|Port|The|And|But|So)(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th))\s\Z",
    ),
)
