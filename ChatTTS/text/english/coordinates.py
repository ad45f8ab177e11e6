"""Angles in degrees, minutes and seconds, and lone primes: "46°33′N", "22′", "6′2″"."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..spans import span

WAYS = {"N": "north", "S": "south", "E": "east", "W": "west"}
_WAY = r"(?:\s?(?P<way>[NSEW])\b)?"
_SIDES = {"W": "wide", "D": "deep", "H": "high", "L": "long"}
_PRIME = "['′]"
_UNQUOTED = r"\A(?!.*(?<!\w)['‘]\w)"
_LONG = r"(?=\s(?:long|wide|tall|high|deep|boat|ceilings?|sail|by)\b|\s?[x×]\s?\d)"


def _say_angle(match: re.Match[str]) -> str:
    said = [*(["minus"] if match["minus"] else []), _unit(match["degrees"], "degree")]
    if match["minutes"]:
        said.append(_unit(match["minutes"], "minute"))
    if match["seconds"]:
        said.append(_unit(match["seconds"], "second"))
    way = match["way"] or match["only"]
    return " ".join([*said, WAYS[way]] if way else said)


def _unit(number: str, one: str, many: str = "") -> str:
    bare = number.lstrip("0") or "0"
    bare = f"0{bare}" if bare.startswith(".") else bare
    return f"{english_number(bare)} {one if bare == '1' else many or one + 's'}"


def _say_feet(match: re.Match[str]) -> str:
    feet = f"{english_number(match['feet'])} {'foot' if match['feet'] == '1' else 'feet'}"
    return f"{feet} {english_number(match['inches'])}" if match["inches"] else feet


COORDINATES = (
    span(
        "angles",
        r"(?<![\w.])(?P<minus>(?<![)])[-−])?(?P<degrees>\d{1,3}(?:\.\d{1,8})?)\s?°\s?"
        rf"(?:(?P<minutes>\d{{1,2}}(?:\.\d{{1,6}})?){_PRIME}\s?"
        r"(?:(?P<seconds>\d{1,2}(?:\.\d{1,6})?)(?:″|\"|''))?"
        rf"{_WAY}|\s?(?P<only>[NSEW])\b)",
        _say_angle,
    ),
    span(
        "sizes with a side",
        r"(?<![\w.])(\d{1,3}(?:\.\d{1,3})?)\s?(?:\"|″|”|''|in\.?)\s?"
        r"([WDHL]|(?<![\s\w.])[wdhl])\b(\s?[x×]\s?(?=\d))?",
        lambda match: (
            f"{_unit(match[1], 'inch', 'inches')} {_SIDES[match[2].upper()]}"
            f"{' by ' if match[3] else ''}"
        ),
    ),
    span(
        "feet and inches",
        rf"(?<![\w.'])(?P<feet>\d{{1,3}}){_PRIME}"
        rf"(?:[\s-]?(?P<inches>\d{{1,2}}(?:\.\d)?)(?:″|\"|''|(?=\s+tall))|{_LONG})",
        _say_feet,
    ),
    span(
        "heights in feet",
        r"(?:(?<=\d,\d{3})|(?<=\d\.\d)|(?<=\d{4})(?<!\b19\d\d)(?<!\b20\d\d))['′](?!\w)",
        " feet",
        behind=_UNQUOTED,
    ),
    span(
        "lone primes",
        r"(?<![\w.])(?:(\d{1,3})′|(\d{1,3}(?:\.\d{1,3})?)″)",
        lambda match: _unit(match[1], "minute") if match[1] else _unit(match[2], "inch", "inches"),
    ),
)
