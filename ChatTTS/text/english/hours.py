"""Hours of the armed forces, and halves of the day in one letter: "1830 hrs", "6:45p", "7a"."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..spans import before, span
from .clock import say_hour

_HOUR, _MINUTE = r"(?P<hour>[01]\d|2[0-4])", r"(?P<minute>[0-5]\d)"
_UNIT = r"(?P<unit>\s?(?:h|hrs|hours)\b(?!\s?\d))"
_TRAVELLED = re.compile(
    r"(?i)\b(?:dep|arr|lv|ET[AD]|(?:depart|arriv|leav|land|board)\w{0,3})\.?:?\s(?:at\s)?\Z"
)
_MET = (
    r"(?i)\b(?:meet|see y?[oa]?u|be there|come|pick|leav\w+|starts?|opens?|closes?|doors|class|"
    r"lunch|dinner|drinks|call|show|practice)\b[^.!?\d]{0,24}(?:@|\b(?:at|by|around|till?|until))\s?\Z"
)


def _say_four(match: re.Match[str]) -> str | None:
    if not (match["unit"] or _TRAVELLED.search(before(match))):
        return None
    return _four(match["hour"], match["minute"]) + (" hours" if match["unit"] else "")


def _four(hour: str, minute: str) -> str:
    said = ("o " if hour[0] == "0" and hour != "00" else "") + english_number(str(int(hour)))
    if minute == "00":
        return f"{said} hundred"
    return f"{said} {'o ' if minute[0] == '0' else ''}{english_number(str(int(minute)))}"


def _say_range(match: re.Match[str]) -> str:
    first, last = _four(match["hour"], match["minute"]), match["last"]
    return f"{first} to {_four(last[:2], last[2:])}{' hours' if match['unit'] else ''}"


HOURS = (
    span("working days", r"\bM[-–]F\b(?=,?\s\d)", "Monday to Friday"),
    span(
        "hours to hours in four digits",
        rf"(?<![\w.,$-])(?=0){_HOUR}{_MINUTE}\s?[-–]\s?(?P<last>(?:[01]\d|2[0-4])[0-5]\d)"
        rf"(?:{_UNIT}|(?!\w|[.,:/-]\d))",
        _say_range,
    ),
    span(
        "hours in four digits",
        rf"(?<![\w.,$-]){_HOUR}{_MINUTE}(?:{_UNIT}|(?!\w|[.,:/-]\d))",
        _say_four,
    ),
    span(
        "hours in three digits",
        r"(?<![\w.,$-])(?P<hour>[1-9]|1[0-2])(?P<minute>15|30|45)(?![\w%-]|[.,:/]\d|\s[A-Z])",
        lambda match: say_hour(int(match["hour"]), match["minute"]),
        behind=_MET,
    ),
    span(
        "halves in one letter",
        r"(?<![\w:.])(?P<hour>1[0-2]|[1-9])(?::(?P<minute>[0-5]\d)\s?|(?:(?<=@\d)|(?<=@ \d)|"
        r"(?<=\bat \d)|(?<=\bto \d)|(?<=-\d)|(?<=[ap]-\d\d)|(?<=@\d\d)|(?<=@ \d\d)|(?<=\bat \d\d)|"
        r"(?=[ap][-–]\d{1,2}(?::\d\d)?[ap]\b)))"
        r"(?P<half>[ap])(?!\w|[.'’]\w)",
        lambda match: say_hour(int(match["hour"]), match["minute"] or "00", f" {match['half']} m"),
    ),
)
