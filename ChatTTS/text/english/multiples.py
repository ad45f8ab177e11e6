"""Numbers of times, and lengths of time, behind an x: "1 tab x 10 days", "135 lbs x 8 reps"."""

from __future__ import annotations

from ..number_words import english_number
from ..spans import span
from .clock import counted
from .measures import DIVISORS

_REPEATED = (
    r"\s(?:days?|nights?|we?e?ks?|mos?|months?|hours?|hrs?|min(?:ute)?s?|mins|years?|yrs?|reps?|sets?|"
    r"doses?|rounds?|miles?)\b"
)

MULTIPLES = (
    span("times an amount", r"(?<=[\w.] )x(?= [$€£¥]\d)", "times", without_digits=False),
    span(
        "so many hours or days",
        r"(?<![\d\s])\sx\s?(\d{1,3})\s?(h|d|wks?|mos?)\b(?!\.?\w)(?:\.(?=[,;:)]|\s[a-z]))?",
        lambda match: f" for {counted(int(match[1]), DIVISORS[match[2].rstrip('s')])}",
    ),
    span("so long", rf"(?<![\d\s])\sx\s?(?=\d{{1,3}}(?:-\d{{1,3}})?{_REPEATED})", " for "),
    span(
        "so often",
        r"(?<=[^\d\s]\s)x([1-9])(?![\w.-]|\s?[=x])",
        lambda match: f"times {english_number(match[1])}",
    ),
)
