"""Ranges, differences, negative numbers and versions in English."""

from __future__ import annotations

import re

from ..number_words import english_number, english_ordinal
from ..spans import span
from .calendar import MONTHS


def _version(match: re.Match[str]) -> str | None:
    parts = match[2].split(".")
    if not match[1] and len(parts) < 3:
        return None
    return ("version " if match[1] else "") + " point ".join(map(english_number, parts))


_MONTH = "Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec"
RANGES = (
    span(
        "months to months",
        rf"\b({_MONTH})\.?[-–]({_MONTH})\b(?:\.(?=\s[a-z\d]))?",
        lambda match: " to ".join(MONTHS.get(each.lower(), each) for each in match.groups()),
        without_digits=True,
    ),
    span("ordinals to ordinals", r"(?<=\d(?:st|nd|rd|th))[-–](?=\d{1,3}(?:st|nd|rd|th)\b)", " to "),
    span("names to names", r"(?:(?<=\b[A-Z]\d)|(?<=\b[A-Z]\d\d))[-–](?=[A-Z]\d{1,2}\b)", " to "),
    span("differences of numbers", r"(?<=\d)\s?-\s?(?=\d+\s*=)", " minus "),
    span(
        "numbers to numbers",  # but for the code of a place: "TX 78701-1234"
        r"(?=[-–—~\s])(?<!\b[A-Z]{2} \d{5})(?:(?<=[\d%])|(?<=\d[skKmMbB])|(?<=\d[aApP][mM])|"
        r"(?<=\d [aApP][mM])|(?<=\d[ap]\.m\.)|(?<=\d [ap]\.m\.)|(?<=\d\")(?=[-–—]))"
        r"(?:[-–—~]|\s[-–—~]\s)"
        r"(?=[$€£¥]?\d|noon\b|midnight\b)",
        " to ",
        without_digits=True,
    ),
    span("hours to hours", r"(?<=\d[ap])[-–](?=\d{1,2}(?::\d\d)?[ap]\b)", " to "),
    span("negative numbers apart", r"(?<=[=<>≤≥] )[-−]\s(?=\.?\d)", "minus "),
    span("negative numbers", r"(?<![\w)^*])[-−](?=\.?\d|[$€£¥₹₩]\d)", " minus "),
    span("so many times", r"(?<=\d)[x×](?!\w|\^|\s?[=+-])", " times"),
    span("sizes", r"(?:(?<=\d)|(?<=\d[\"']))\s?[x×]\s?(?=\d)(?!\d+\s*=)", " by "),
    span("versions", r"(?<![\w.])(v\.?\s?)?(\d+(?:\.\d+)*)(?!\w)", _version),
    span(
        "ordinals",
        r"(?<![\w.])(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,20})(?:(?<=1\d)th|(?<=[04-9])th"
        r"|(?<!1\d)(?:(?<=1)st|(?<=2)nd|(?<=3)rd))\b",
        lambda match: english_ordinal(match[0]),
    ),
)
