"""Hours of the armed forces, and halves of the day in one letter: "1830 hrs", "6:45p", "7a"."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..spans import span
from .clock import say_hour


def _say_four(match: re.Match[str]) -> str:
    hour, minute = match["hour"], match["minute"]
    zero = "o " if hour[0] == "0" and hour != "00" else ""
    said = f"{zero}{english_number(str(int(hour)))}"
    if minute == "00":
        return f"{said} hundred hours"
    o = "o " if minute[0] == "0" else ""
    return f"{said} {o}{english_number(str(int(minute)))} hours"


HOURS = (
    span("working days", r"\bM[-–]F\b(?=,?\s\d)", "Monday to Friday"),
    span(
        "hours in four digits",
        r"(?<![\w.,$-])(?P<hour>[01]\d|2[0-4])(?P<minute>[0-5]\d)\s?"
        r"(?:h|hrs|hours)\b(?!\s?\d)",
        _say_four,
    ),
    span(
        "halves in one letter",
        r"(?<![\w:.])(?P<hour>1[0-2]|[1-9])(?::(?P<minute>[0-5]\d)\s?|(?:(?<=@\d)|(?<=@ \d)|"
        r"(?<=\bat \d)|(?<=\bto \d)|(?<=-\d)|(?<=@\d\d)|(?<=@ \d\d)|(?<=\bat \d\d)|"
        r"(?=[ap][-–]\d{1,2}(?::\d\d)?[ap]\b)))"
        r"(?P<half>[ap])(?!\w|[.'’]\w)",
        lambda match: say_hour(int(match["hour"]), match["minute"] or "00", f" {match['half']} m"),
    ),
)
