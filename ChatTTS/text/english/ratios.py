"""Ratios that no clock shows: "1:25,000", "a 3:1 ratio"."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..spans import SpanClass

RATIOS = (
    SpanClass(
        "ratios",
        re.compile(
            r"(?<![\w:.,])(\d{1,3}):(\d{1,3}(?:,\d{3}){1,3}|\d{3,9})(?![\w:]|[.,]\d|\s?[ap]\.?m\b)"
        ),
        lambda match: f"{english_number(match[1])} to {english_number(match[2])}",
    ),
)
