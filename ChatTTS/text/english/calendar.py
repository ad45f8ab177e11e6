"""Read dates, years and decades in English."""

from __future__ import annotations

import re

from ..number_words import english_number, english_ordinal, english_year
from ..readers import either
from ..spans import span

MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

MONTHS = {
    "jan": "January", "feb": "February", "mar": "March", "apr": "April", "jun": "June",
    "jul": "July", "aug": "August", "sep": "September", "sept": "September", "oct": "October",
    "nov": "November", "dec": "December",
}  # fmt: skip
WEEKDAYS = {
    "mon": "Monday", "tue": "Tuesday", "tues": "Tuesday", "wed": "Wednesday", "thu": "Thursday",
    "thur": "Thursday", "thurs": "Thursday", "fri": "Friday", "sat": "Saturday", "sun": "Sunday",
}  # fmt: skip

# In lower case, "may" and "march" are verbs; "mar" is one, too.
_ANY_CASE = "|".join(
    word
    for month in sorted({*MONTHS, *map(str.lower, MONTHS.values())}, key=len, reverse=True)
    for word in ([] if month in ("mar", "march") else [month])
)
_MONTH = (
    rf"(?P<month>(?i:{_ANY_CASE})|May|MAY|may(?= (?:1[1-9]|20)\d\d\b)|March|MARCH|Mar|MAR)\b\.?"
)
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?(?:\b|(?<=[dht])(?=[A-Z]))(?![:.,]\d)"
_YEAR = r"(?P<year>(?:1[1-9]|20)\d\d)\b"
_IS_YEAR = re.compile(r"(?:1[1-9]|20)\d\d")
_BEFORE_YEAR = r"(?:,\s?|\s)"


def _numeric(match: re.Match[str]) -> str:
    """Return 2024-05-03, or 05-03-2024 with the month first if it can be one."""
    first, second, third = re.findall(r"\d+", match[0])
    year, month, day = (first, second, third) if len(first) == 4 else (third, first, second)
    if int(month) > 12:
        month, day = day, month
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return ", ".join(map(english_number, (first, second, third)))
    return say_day(year, month, day)


def say_day(year: str, month: str, day: str) -> str:
    """Return a day from its numbers: "the third of may twenty twenty four"."""
    name = MONTH_NAMES[int(month) - 1].lower()
    return f"the {english_ordinal(str(int(day)))} of {name} {_said_year(year)}"


def _short(match: re.Match[str]) -> str:
    """Return a date of two digits each, with the month first: 11/17/05."""
    return f"{MONTH_NAMES[int(match['month']) - 1]} {_day(match)}, {_short_year(match['year'])}"


def _short_year(year: str) -> str:
    return f"o {english_number(year[1])}" if year[0] == "0" else english_number(year)


def _hyphened(match: re.Match[str]) -> str:
    """Return a day between hyphens: 27-Aug-02."""
    year = match["year"]
    said = english_year(year) if len(year) == 4 else _short_year(year)
    return f"{_month(match)} {_day(match)}, {said}"


def _dashed(match: re.Match[str]) -> str:
    year = f", {english_year(match['year'])}" if match["year"] else ""
    return f"{_month(match)} {_day(match)}{year}"


def _month_first(match: re.Match[str]) -> str:
    year = f", {english_year(match['year'])}" if match["year"] else ""
    last = f" to {english_ordinal(match['last'])}" if match["last"] else ""
    return f"{_month(match)} {_day(match)}{last}{year}{' to ' if match['to'] else ''}"


def _day_first(match: re.Match[str]) -> str:
    year = f" {english_year(match['year'])}" if match["year"] else ""
    return f"{match['the'] or 'the '}{_day(match)} of {_month(match)}{year}"


def _month(match: re.Match[str]) -> str:
    return MONTHS.get(match["month"].lower(), match["month"].capitalize())


def _day(match: re.Match[str]) -> str:
    return english_ordinal(str(int(match["day"])))


def _decade(match: re.Match[str]) -> str:
    words = _said_year(match[1] or match[2] or match[3] or match[4])
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def say_number(number: str) -> str:
    """Return a number of digits, as a year if it looks like one."""
    return english_year(number) if _IS_YEAR.fullmatch(number) else english_number(number)


def _said_year(year: str) -> str:
    return english_year(year) if len(year) == 4 else english_number(year)


NUMERIC_DATES = (
    span(
        "days in digits",
        r"(?<![\w./-])(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4})"
        r"(?![\w/-]|\.\d)",
        _numeric,
    ),
    span(
        "days with a short year",
        r"(?<![\w/.-])(?P<month>0?[1-9]|1[0-2])/(?P<day>0?[1-9]|[12]\d|3[01])/(?P<year>\d\d)"
        r"(?![\w/])",
        _short,
    ),
    span(
        "months between hyphens",
        rf"(?<![\w.-])(?P<day>0?[1-9]|[12]\d|3[01])-{_MONTH}-"
        r"(?P<year>(?:1[1-9]|20)\d\d|\d\d)(?![\w-])",
        _hyphened,
    ),
    span(
        "days behind a hyphen",
        rf"\b{_MONTH}-(?P<day>0?[1-9]|[12]\d|3[01])(?:-{_YEAR})?(?![\w-])",
        _dashed,
    ),
)
DATES = (
    span("years of two digits", r"(?<![\w'’])['’]0(\d)(?![\w'’])", r"o \1"),
    span(
        "days behind their month",
        rf"\b{_MONTH}\s{_DAY}(?:(?:\sto\s|\s?[-–]\s?)(?P<last>\d\d?)(?!\w|[:.]\d|\s?[ap]\.?m))?"
        rf"(?:{_BEFORE_YEAR}{_YEAR})?(?P<to>\s?[-–]\s?(?=(?:[A-Z][a-z]{{2,8}}\.?,?\s){{1,2}}\d))?",
        _month_first,
    ),
    span(
        "days before their month",
        rf"(?<![\w.,$€£¥])(?P<the>[Tt]he\s)?{_DAY}(?:\sof)?\s?{_MONTH}"
        rf"(?:{_BEFORE_YEAR}{_YEAR})?",
        _day_first,
    ),
    span(
        "months of a year",
        r"\b(Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?(?=\s(?:1[5-9]|20)\d\d\b)",
        lambda match: MONTHS[match[1].lower()],
    ),
)
_AFTER_WEEKDAY = (
    rf"(?:{'|'.join(map(str.title, MONTHS))}|January|February|March|April|May|June|July|August|"
    r"September|October|November|December)\b|\d|till\b|until\b|noon\b|morning\b|afternoon\b|evening\b|night\b"
)
_DAY_NAME = "Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun"
DAYS_AND_MONTHS = (
    span(
        "days to days",
        rf"\b({_DAY_NAME})\.?\s?[-–]\s?({_DAY_NAME})\b\.?(?!\w)",
        lambda match: " to ".join(WEEKDAYS[each.lower()] for each in match.groups()),
    ),
    # Three are words, too: "it said Sat." and "on Sun. at ten", but "under the Sun."
    span(
        "days of a week",
        rf"\b(?:Tues?|Wed|Thu(?:rs?)?|Fri)\b(?:\.(?=,|\s[a-z\d@(&]|,?\s(?:{_AFTER_WEEKDAY})))?"
        rf"|\bMon\b(?:\.(?=,)|\.?(?=,?\s(?:{_AFTER_WEEKDAY}|to\b|and\b|-)))"
        rf"|\b(?:Sat|Sun)\b\.?(?=,?\s(?:{_AFTER_WEEKDAY}))|(?<=\bto )(?:Mon|Sat|Sun)\b"
        r"|(?<=[a-z,)] )(?<!the )(?:Mon|Sat|Sun)"
        r"(?:\.(?=\s[a-z])|(?=\.\s{0,8}\Z|\s(?:closed|open|only)\b))",
        lambda match: WEEKDAYS[match[0].rstrip(".").lower()],
        without_digits=True,
    ),
    span(
        "months",
        rf"(?<![\w.])((?i:{either(MONTHS)})(?=\.\s{{0,8}}[(+]{{0,2}}\d)|"
        rf"(?:{either(map(str.title, MONTHS))})(?=\.\s{{0,8}}(?:[a-z–-]|,\s\d)))\.",
        lambda match: MONTHS[match[1].lower()],
        without_digits=True,
    ),
)
# "in her 30s", "the 90s" and "temps in the low 70s"; "wait 30s" and "a 30s timeout" are seconds.
_DECADED = (
    r"\b[Tt]he |\bthese |\bmy |\b[Hh]is |\b[Hh]er |\bour |\byour |\btheir |\b[Ee]arly |\b[Ll]ate |"
    r"\bmid |\b[Mm]id-|\blow |\bhigh |\blower |\bupper |\d0s and |\d0s or |\d0s to |\d0s-"
)
_BEFORE_DECADE = "|".join(rf"(?<={words})" for words in _DECADED.split("|"))
DECADES = (
    span(
        "decades",
        rf"(?<![\w.])(?:'?((?:1[1-9]|20)\d0)s\b|'(\d0)s\b|(\d0)s(?=\s(?:and|or|to|through)\s\d0s\b)|(?:{_BEFORE_DECADE})(\d0)s\b"
        r"(?!\s(?:timeout|delay|limit|window|interval|clip|video|wait|break|pause|sprint|mark|"
        r"cache|TTL)))",
        _decade,
    ),
)
YEARS = (
    span(
        "years",
        r"(?<![\w.,:])(?:1[1-9]|20)\d\d(?![\d_]|[.,:]\d)",
        lambda match: english_year(match[0]),
    ),
)
