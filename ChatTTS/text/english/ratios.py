"""Ratios that no clock shows: "1:25,000", "a 3:1 ratio"."""

from __future__ import annotations

from ..number_words import english_number
from ..spans import span

_WORDS = r"ratio|odds|scale|proportion|mix|split|gear|dilution|majority|margin"

RATIOS = (
    span(
        "ratios with a word",
        rf"(?:(?P<before>\b(?:{_WORDS})(?:\s(?:of|is|was|at|about))?:?\s)|(?<![\w:.,]))"
        r"(?P<first>\d{1,3}(?:\.\d{1,3})?):(?P<second>\d{1,3}(?:\.\d{1,3})?)(?![\w:]|[.,]\d)"
        rf"(?(before)|(?=\s(?:{_WORDS}|screens?|display|monitor|video)\b))",
        lambda match: (
            f"{match['before'] or ''}{english_number(match['first'])} to "
            f"{english_number(match['second'])}"
        ),
    ),
    span(
        "ratios",
        r"(?<![\w:.,])(\d{1,3}):(\d{1,3}(?:,\d{3}){1,3}|\d{3,9})(?![\w:]|[.,]\d|\s?[ap]\.?m\b)",
        lambda match: f"{english_number(match[1])} to {english_number(match[2])}",
    ),
)
