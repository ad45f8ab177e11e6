"""Telephone numbers: digit by digit, with a pause between groups."""

from __future__ import annotations

import re

from ..number_words import english_digits
from ..spans import span


def _grouped(match: re.Match[str]) -> str:
    """Return the digits one by one, with a pause between groups."""
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(english_digits(group) for group in re.findall(r"\d+", match[0]))


def _vanity(match: re.Match[str]) -> str:
    """Return a telephone number with a word in it; the word stays one."""
    return f"one, {english_digits(match[1])}, {match[2].replace('-', ' ')}"


PHONES = (
    span(
        "numbers with a word",
        r"\b1-(8\d\d)-((?:[A-Z0-9]{1,9}-){0,5}[A-Z][A-Z0-9]{0,9}(?:-[A-Z0-9]{1,9}){0,5})\b",
        _vanity,
    ),
    span(
        "numbers to dial",
        r"\b((?:[Dd]ial(?:l?ed|l?ing)?|[Cc]all(?:ed|ing)?|[Tt]ext|[Rr]ing|phone)\s)(\d{3,6})(?!\w|%|[.,:/-]\d|"
        r"\s(?:[a-z]{2,}s|people|times|o'clock)\b)",
        lambda match: match[1] + english_digits(match[2]),
    ),
    span(
        "telephone numbers",
        r"(?<![\w.])(?:(?:\+\d{1,3}|1)[\s.-]?)?(?:\(\d{2,4}\)[\s-]?|\b\d{3}[\s.-])\d{3}"
        r"[\s.-]\d{4}\b(?:-\d{1,4}\b)?"
        r"|(?<![\w.+])\+\d[\d\s()-]{6,20}\d\b"
        # A zero, the area and one or two groups: 07700 900123 and 020 7946 0958. A day and a
        # year, "05 2024", have fewer digits.
        r"|(?<![\w.-])(?<!\b[A-Z]{2} )(?=\(?(?:\d[\s)-]{0,2}){9})"
        r"\(?0\d{1,5}\)?(?:[\s-]\d{3,8}){1,3}(?![\w%]|[.,:/-]\d)"
        r"|(?<![\w.-])(?:\d{3}-\d{4}|(?:(?=(?:\d-?){7})|(?=\d\d-\d\d-\d\d\b))"
        r"\d{2,}(?:-\d+){2,})\b(?!-)",
        _grouped,
    ),
)
