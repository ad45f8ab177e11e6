"""Instants as programs write them ("2023-10-02T08:05:00+02:00"), and days such as "Tue 04/09"."""

from __future__ import annotations

import re

from ..number_words import english_number, english_ordinal, english_year
from ..spans import span
from .calendar import MONTH_NAMES, MONTHS, WEEKDAYS, say_day
from .clock import counted, say_hour

_TWO = r"[0-5]\d"
_INSTANT = re.compile(
    r"(?<![\w/-])(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])"
    rf"(?:T|(?P<space>[ _]))(?P<hour>[01]\d|2[0-4]):?(?P<minute>{_TWO})"
    rf"(?::?(?P<second>{_TWO})(?:[.,](?P<part>\d{{1,9}}))?)?"
    rf"(?:\s?(?:(?P<utc>Z)|(?P<sign>[+-])(?P<ahead>[01]\d):?(?P<ahead_minute>{_TWO})?))?(?![\w:-])"
)
_WEEKDAY = r"Mon|Tue|Tues|Wed|Thu|Thur|Thurs|Fri|Sat|Sun|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_PART = r"\s(?:of|the|an?|cups?|inch|ac|acres?|mi|miles?|lbs?|oz|off|price)\b"
_SHORT = rf"(?P<month>0?[1-9]|1[0-2])/(?P<day>0?[1-9]|[12]\d|3[01])(?![\w/]|\.\d|{_PART})"
# Words before a day; "by 3/4" is rather a part.
_DATED_BY = r"(?:week|wk\.?) of|on|since|until|till|due|available|avail|starting"


def _say(match: re.Match[str]) -> str | None:
    if match["space"] and not (match["second"] or match["sign"] or match["utc"]):
        return None  # a date and a time, each of its own class
    day = say_day(match["year"], match["month"], match["day"])
    said = [day, say_hour(int(match["hour"]), match["minute"])]
    second, part = match["second"] or "00", match["part"] or ""
    if part.strip("0"):
        said.append(f"and {english_number(f'{int(second)}.{part}')} seconds")
    elif int(second):
        said.append(f"and {counted(int(second), 'second')}")
    if match["utc"]:
        said.append("U T C")
    if match["sign"]:
        minute = match["ahead_minute"] or "00"
        hours = english_number(str(int(match["ahead"])))
        rest = "" if minute == "00" else f" {english_number(minute)}"
        said.append(f"U T C {'plus' if match['sign'] == '+' else 'minus'} {hours}{rest}")
    return " ".join(said)


def _say_logged(match: re.Match[str]) -> str:
    month, day = match["month"] or match["short"], match["day"] or match["date"]
    said = f"{MONTHS.get(month.lower(), month)} {english_ordinal(day.lstrip('0'))}"
    said += f", {english_year(match['year'])}" if match["year"] else ""
    second = int(match["second"])
    clock = say_hour(int(match["hour"]), match["minute"])
    return f"{said}, {clock}" + (f" and {counted(second, 'second')}" if second else "")


def _say_days(match: re.Match[str]) -> str | None:
    """Return two days; "1/2-3/4" are rather parts."""
    if all(int(match[m]) < int(match[d]) < 11 for m, d in (("month", "day"), ("second", "last"))):
        return None
    days = ((match["month"], match["day"]), (match["second"], match["last"]))
    return " to ".join(
        f"{MONTH_NAMES[int(month) - 1]} {english_ordinal(day.lstrip('0'))}" for month, day in days
    )


def _short(match: re.Match[str]) -> str:
    return f"{MONTH_NAMES[int(match['month']) - 1]} {english_ordinal(match['day'].lstrip('0'))}"


def _weekday(match: re.Match[str]) -> str:
    name = match["weekday"]
    return f"{WEEKDAYS.get(name.lower(), name)}{match['comma']} {_short(match)}"


TIMESTAMPS = (
    span(
        "instants of logs",
        rf"\b(?:(?P<date>\d{{2}})/(?P<short>{_MONTH})/(?P<year>\d{{4}}):|"
        rf"(?P<month>{_MONTH})\s{{1,2}}(?P<day>[1-9]|[12]\d|3[01])\s)"
        rf"(?P<hour>[01]\d|2[0-3]):(?P<minute>{_TWO}):(?P<second>{_TWO})(?![\w:.])",
        _say_logged,
    ),
    span(
        "spans of days",
        r"(?<![\w/.-])(?P<month>0?[1-9]|1[0-2])/(?P<day>0?[1-9]|[12]\d|3[01])\s?[-–—]\s?"
        r"(?P<second>0?[1-9]|1[0-2])/(?P<last>0?[1-9]|[12]\d|3[01])(?![\w/\"]|\.\d)",
        _say_days,
    ),
    span("instants", _INSTANT, _say),
    span(
        "months of a year in digits",
        r"(?<![\w/.,-])(0?[1-9]|1[0-2])/((?:19|20)\d\d)(?![\w/-]|\.\d)",
        lambda match: f"{MONTH_NAMES[int(match[1]) - 1]} {english_year(match[2])}",
    ),
    span(
        "days with a weekday", rf"\b(?P<weekday>{_WEEKDAY})\b\.?(?P<comma>,?)\s{_SHORT}", _weekday
    ),
    span(
        "days after by",
        rf"(?<=\bby ){_SHORT}",
        lambda match: None if int(match["month"]) < int(match["day"]) <= 10 else _short(match),
    ),
    span("days without a year", _SHORT, _short, behind=rf"\b(?:{_DATED_BY})\s\Z"),
    span(
        "days behind an abbreviation",
        rf"\b[Aa]vail\.\s{_SHORT}",
        lambda match: f"available {_short(match)}",
    ),
)
