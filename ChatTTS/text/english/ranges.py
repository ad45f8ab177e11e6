"""Read ranges, differences, negative numbers and versions in English."""

from __future__ import annotations

import re

from ..numbers import english_number, english_ordinal
from ..readers import Rule, rewrite


def _version(match: re.Match[str]) -> str:
    parts = match[2].split(".")
    if not match[1] and len(parts) < 3:
        return match[0]
    return ("version " if match[1] else "") + " point ".join(map(english_number, parts))


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)"
_RANGES: list[Rule] = [
    (re.compile(rf"\b({_MONTH})\.?[-–](?={_MONTH}\b)"), r"\1 to "),
    (
        re.compile(
            rf"(\b{_MONTH}[a-z]{{0,6}}\.?\s\d{{1,2}})\s?[-–]\s?(?={_MONTH}[a-z]{{0,6}}\.?\s\d)"
        ),
        r"\1 to ",
    ),
    (re.compile(r"(?<=\d(?:st|nd|rd|th))[-–](?=\d{1,3}(?:st|nd|rd|th)\b)"), " to "),
    (re.compile(r"(?:(?<=\b[A-Z]\d)|(?<=\b[A-Z]\d\d))[-–](?=[A-Z]\d{1,2}\b)"), " to "),
    (re.compile(r"(?<=\d)\s?-\s?(?=\d+\s*=)"), " minus "),
    (
        re.compile(
            r"(?:(?<=[\d%])|(?<=\d[skKmMbB])|(?<=\d [ap] m))(?:[-–—~]|\s[-–—~]\s)(?=[$€£¥]?\d)"
        ),
        " to ",
    ),
    (re.compile(r"(?<![\w)])[-−](?=\.?\d|[$€£¥₹₩]\d)"), " minus "),
]
_VERSIONS: list[Rule] = [(re.compile(r"(?<![\w.])(v\.?\s?)?(\d+(?:\.\d+)*)(?!\w)"), _version)]
_ORDINALS: list[Rule] = [
    (
        re.compile(
            r"(?<![\w.])(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,20})(?:(?<=1\d)th|(?<=[04-9])th"
            r"|(?<!1\d)(?:(?<=1)st|(?<=2)nd|(?<=3)rd))\b"
        ),
        lambda match: english_ordinal(match[0]),
    )
]
_TIMES: list[Rule] = [
    (re.compile(r"(?<=\d)[x×](?!\w|\s?[=+-])"), " times"),
    (re.compile(r"(?<=\d)\s?[x×]\s?(?=\d)"), " by "),
]


def read_ranges(text: str) -> str:
    """Return ``text`` with "to" and "minus" for the dashes before and between numbers."""
    return rewrite(text, _RANGES)


def read_versions(text: str) -> str:
    """Return ``text`` with versions as words: "1.2.3" is one point two point three."""
    return rewrite(text, _VERSIONS)


def read_ordinals(text: str) -> str:
    """Return ``text`` with ordinals as words: "21st" is twenty first."""
    return rewrite(text, _ORDINALS)


def read_multiples(text: str) -> str:
    """Return ``text`` with "4x" as four times, and "2 x 8" as two by eight."""
    return rewrite(text, _TIMES)
