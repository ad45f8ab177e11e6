"""Read numbers that are names rather than amounts, in English: codes, addresses, rooms, flights."""

from __future__ import annotations

import re

from ..numbers import english_digits, english_number, english_ordinal, english_year
from ..readers import Rule, rewrite

_NAMED = (
    r"\b((?:(?:ending in|(?:[Zz]ip|[Aa]rea|[Aa]ccess|[Cc]ountry|PIN|pin|OTP|CVV|otp)"
    r"(?: code)?(?: is| of|:)?|[Cc]ode(?: is| of|:)?|PIN(?: is| of|:)?)\s|(?:[Oo]rder|[Ii]nvoice|"
    r"[Tt]icket|[Aa]ccount|[Tt]racking|[Cc]onfirmation)\s(?:number\s|no\.\s|#\s?)(?:is\s)?))"
    r"(\d{3,20})(?![\w%]|[.,:/-]\d)"
)
_PLACES = (
    "Boeing|Airbus|Flight|Route|Highway|Interstate|Room|Suite|Gate|Apartment|Building|"
    "[Ff]light|[Rr]oom|[Rr]oute|Exit|Bus|Line"
)
# In any case, since titles are often set in capitals.
_COUNTED = (
    "(?i:chapter|episode|part|season|lesson|unit|day|week|level|step|track|volume|scene|act|book|"
    "section|page|stage|phase|verse|slide|figure|appendix|round|disc|(?:ch|ep|pt|vol|fig|sec)\\.)"
)


def spelled(code: str) -> str:
    """Return a code sign by sign: "4c7" is "four c seven"."""
    return " ".join(english_digits(sign) if sign.isdigit() else sign for sign in code)


def _paired(match: re.Match[str]) -> str:
    """Return a number of three digits as it names a place: 747 is "seven forty seven"."""
    noun, number = match.groups()
    return f"{noun}{say_in_pairs(number)}"


def say_in_pairs(number: str) -> str:
    """Return a number as it names things: "747" is seven forty seven, "5600" fifty six hundred."""
    first, rest = number[:-2], number[-2:]
    if not first or (first[-1] == "0" and len(first) > 1) or (rest == "00" and len(number) == 3):
        return english_number(number)
    if rest == "00":
        return f"{english_number(first)} hundred"
    said = f"o {english_number(rest[1])}" if rest[0] == "0" else english_number(rest)
    return f"{english_number(first)} {said}"


def _model(match: re.Match[str]) -> str:
    """Return "DDR5-5600" with its second number in pairs."""
    number = match[2]
    return f"{match[1]} {say_in_pairs(number) if len(number) in (3, 4) else number}"


def _flaw(match: re.Match[str]) -> str:
    return f"C V E {english_year(match[1])}, {english_digits(match[2])}"


_CODES: list[Rule] = [
    (re.compile(r"\bCVE-(\d{4})-(\d+)\b"), _flaw),
    # Hexadecimal numbers, and the names of commits.
    (
        re.compile(r"\b0[xX]([0-9A-Fa-f]{1,32})\b"),
        lambda match: f"zero x {spelled(match[1].upper())}",
    ),
    (
        re.compile(
            r"(?<![\w.-])(?=[0-9a-f]{0,39}[a-f])(?=(?:[a-f]{0,9}\d){2})[0-9a-f]{7,40}(?![\w.-]*\w)"
        ),
        lambda match: spelled(match[0]),
    ),
    (re.compile(r"\b([A-Z]{2,})~(?=\d)"), r"\1 tilde "),
    (re.compile(r"\bHEAD\^"), "HEAD caret"),
    # British post codes.
    (
        re.compile(r"\b([A-Z]{1,2}\d[A-Z\d]?) (\d[A-Z]{2})\b"),
        lambda match: f"{spelled(match[1])}, {spelled(match[2])}",
    ),
    (
        re.compile(r"\ba/c\s(?:no\.?\s)?(\d{4,20})\b"),
        lambda match: f"account {english_digits(match[1])}",
    ),
    (re.compile(_NAMED), lambda match: match[1] + english_digits(match[2])),
    (
        re.compile(rf"\b((?:{_PLACES})\s)([1-9]\d\d)(?![\w%]|[.,:/]\d)"),
        _paired,
    ),
    (
        re.compile(r"\b([1-4])Q\s?(\d\d|20\d\d)\b"),
        lambda match: f"the {english_ordinal(match[1])} quarter of {match[2]}",
    ),
    (re.compile(r"\b([Pp]age \d+)/(?=\d)"), r"\1 of "),
    (
        re.compile(r"\bFY(?=\d)|\b[Mm][Pp](?=[34]\b)"),
        lambda match: f"{' '.join(match[0].upper())} ",
    ),
    (
        re.compile(r"\b40([13])\s?\(([kb])\)"),
        lambda match: f"four o {english_number(match[1])} {match[2]}",
    ),
    # "b-c-1-5" and "5-3-W" are no ranges; "2-3-year-old" has one.
    (
        re.compile(
            r"(?<![\w-])(?!\d+-\d+-[a-z]{3})(?=[\w-]{0,40}[A-Za-z])(?=[\w-]{0,40}\d-\d)"
            r"\w{1,8}(?:-\w{1,8}){2,12}(?![\w-])"
        ),
        lambda match: match[0].replace("-", " "),
    ),
    (re.compile(r"\b([A-Za-z]{1,9}\d{1,5})-(\d{1,5})(?!\d|-)"), _model),
    # One letter: A380 and F-150.
    (
        re.compile(r"\b([A-Z])-?([1-9](?:[1-9]\d|\d[1-9]))(?![\w.,-]*\d|\w)"),
        lambda match: f"{match[1]} {say_in_pairs(match[2])}",
    ),
    # Calls: foo.bar() and my_function().
    (
        re.compile(r"\b[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){0,8}\(\)"),
        lambda match: match[0][:-2].replace(".", " dot ").replace("_", " "),
    ),
    (re.compile(rf"\b({_COUNTED}\s)0+(?=[1-9])"), r"\1"),
    (
        re.compile(r"(?<![\w.,$])(720|1080|1440|2160)([pi])\b"),
        lambda match: f"{say_in_pairs(match[1])} {match[2]}",
    ),
]


def read_codes(text: str) -> str:
    """Return ``text`` with codes sign by sign, and numbers of rooms and the like in pairs."""
    return rewrite(text, _CODES)
