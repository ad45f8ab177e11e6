"""Short words with a slash in them: "w/o", "c/o", "d/c", "y/y", "50% v/v"."""

from __future__ import annotations

from ..readers import either
from ..spans import span

_WORDS = {
    "w/o": "without", "w/in": "within", "w/": "with", "b/c": "because", "h/o": "history of",
    "s/p": "status post", "d/c": "discontinue", "r/o": "rule out", "p/w": "presents with",
    "f/u": "follow up", "n/a": "not applicable",
    "m/l": "more or less", "v/v": "by volume", "w/w": "by weight", "w/v": "weight by volume",
    "y/y": "year over year", "yr/yr": "year over year", "year/year": "year over year",
    "q/q": "quarter over quarter", "m/m": "month over month",
}  # fmt: skip

SLASHED = (
    span(
        "in care of, or complains of",
        r"(?<![\w/])c/o(?P<name>(?=\s(?:[A-Z]\w{0,2}\.\s)?[A-Z][a-z]))?(?![\w/])",
        lambda match: "complains of" if match["name"] is None else "care of",
    ),
    span(
        "words with a slash",
        rf"(?<![\w/])(?:(?i:{either(set(_WORDS) - {'w/'})})(?![\w/])|w/(?=\s))",
        lambda match: None if match[0] in ("W/W", "M/M", "M/L") else _WORDS[match[0].lower()],
    ),
    span("three letters", r"(?<![\w/])([A-Za-z])/([A-Za-z])/([A-Za-z])(?![\w/])", r"\1 \2 \3"),
    span("openings of a lens", r"(?<=(?<![\w°])[fF])/(?=\d)", " "),
)
