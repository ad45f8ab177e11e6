"""Read times of day and durations in English."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..spans import span

_OPEN = (
    r"(?i)\b(?:open\w*|hours|daily|from|between|(?:mon|tue|wed|thu|fri|sat|sun)\w*)\b"
    r"[^.!?\d]{0,16}\Z"
)
_HALF = re.compile(r"\s?([AaPp])(?:\.[Mm](?![A-Za-z])|[Mm]\b)")


def _clock(match: re.Match[str]) -> str:
    """Return a time of day; other pairs of numbers (a score, 16:9) are read with "to"."""
    half = _HALF.match(match.string, match.end())
    hour, minute = int(match["hour"]), match["minute"]
    is_race = 24 < hour < 60 and minute != "00"  # "she ran it in 38:42"
    if (hour > 24 and not is_race) or int(minute) > 59 or int(match["second"] or 0) > 59:
        return match[0].replace(":", " to ")
    if match["part"]:
        second = english_number(f"{int(match['second'])}.{match['part']}") + " seconds"
        if hour:
            return f"{say_hour(hour, minute)} and {second}"
        return f"{counted(int(minute), 'minute')} and {second}" if int(minute) else second
    if match["second"]:
        numbers = zip((hour, minute, match["second"]), ("hour", "minute", "second"), strict=True)
        hours, minutes, seconds = (counted(int(number), unit) for number, unit in numbers)
        return f"{hours} {minutes} and {seconds}"
    if half and not hour:
        hour = 12
    return english_number(str(hour)) if half and minute == "00" else say_hour(hour, minute)


def _say_opening(match: re.Match[str]) -> str | None:
    """Return "11.00-14.30" as hours, unless one of them is none."""
    first, last = int(match[1]), int(match[3])
    if max(first, last) > 24:
        return None
    return f"{say_hour(first, match[2])} to {say_hour(last, match[4])}"


def say_hour(hour: int, minute: str, half: str = "") -> str:
    """Return "eight o five" for the hour 8 and the minute "05"; ``half`` is such as " p m"."""
    if minute == "00":
        return english_number(str(hour)) + (half or " o'clock")
    o = "o " if minute[0] == "0" else ""
    return f"{english_number(str(hour))} {o}{english_number(minute.lstrip('0'))}{half}"


def _duration(match: re.Match[str]) -> str:
    """Return "2h 30m" as two hours thirty minutes, and "3d4h" as three days four hours."""
    units = {"w": "week", "d": "day", "h": "hour", "m": "minute", "s": "second"}
    parts = ((number, units[name]) for name, number in match.groupdict().items() if number)
    return " ".join(
        f"{english_number(number)} seconds" if "." in number else counted(int(number), unit)
        for number, unit in parts
    )


def counted(number: int, unit: str) -> str:
    """Return "one hour", "two hours"."""
    return f"{english_number(str(number))} {unit}{'' if number == 1 else 's'}"


_HOURS = (
    r"(?P<h>\d{1,3})\s?h(?:rs?|ours?)?\s?(?P<m>\d{1,2})(?:\s?m(?:ins?)?)?(?:\s?(?P<s>\d{1,2})\s?s)?"
)
_MINUTES = r"(?P<m>\d{1,3})\s?m(?:in)?\s?(?P<s>\d{1,2}(?:\.\d{1,3})?)\s?s(?:ec)?"
_DAYS = r"(?P<d>\d{1,3})\s?d\s?(?P<h>\d{1,2})\s?h(?:rs?)?(?:\s?(?P<m>\d{1,2})\s?m(?:in)?)?"

_WEEKS = r"(?P<w>\d{1,2})\s?w\s?(?P<d>[0-6])\s?d"

DURATIONS = tuple(
    span("durations", rf"(?<![\w.:,]){form}(?!\w|[.:]\d)", _duration)
    for form in (_HOURS, _MINUTES, _DAYS, _WEEKS)
)
# The full stop behind "p.m" is that of an abbreviation.
CLOCK = (
    span(
        "minutes and parts of a second",
        r"(?<![\w:.])(\d{1,3}):([0-5]\d\.\d{1,3})(?![\d:])",
        lambda match: f"{counted(int(match[1]), 'minute')} and {match[2].lstrip('0')} seconds",
    ),
    span(
        "times of day",
        r"(?<![\w:.])(?P<hour>\d{1,2})(?::|\.(?=[0-5]\d\s?[AaPp]\.?[Mm]\b))(?P<minute>\d{2})"
        r"(?::(?P<second>\d{2})(?:[.,](?P<part>\d{6}|\d{3}))?)?(?![\d:])",
        _clock,
    ),
    # No amount begins with a zero: "the 07.42 from Leeds".
    span(
        "times with a point",
        r"(?<![\w.:,/])(?P<hour>0\d)\.(?P<minute>[0-5]\d)(?P<second>(?P<part>(?!)))?(?![\w%]|[.,:/]\d)",
        _clock,
    ),
    span("times side by side", r"(?<=\d:[0-5]\d)\s(?=\d{1,2}:[0-5]\d\b)", ", "),
    span(
        "times of opening with points",
        r"(?<![\w.:,/])(\d{1,2})\.([0-5]\d)\s?[-–—]\s?(\d{1,2})\.([0-5]\d)(?![\w%°]|[.,:/-]\d)",
        _say_opening,
        behind=_OPEN,
    ),
    # "324 PM"; "810 AM" may be a station, whose name is said so as well.
    span(
        "times without a colon",
        rf"(?<![\w.:,$/-])([1-9]|1[0-2])([0-5]\d){_HALF.pattern}",
        lambda match: say_hour(int(match[1]), match[2], f" {match[3].lower()} m"),
    ),
    span("parts of a ratio", r"(?<=\d):(?=\d)", " to "),
    span(
        "halves of the day",
        rf"(?<=\d){_HALF.pattern}",
        lambda match: f" {match[1].lower()} m",
    ),
)
