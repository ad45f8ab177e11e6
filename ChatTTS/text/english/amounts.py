"""Numbers in digits as English texts write them, and foreign ways of writing them."""

from __future__ import annotations

import re

from ..number_words import english_digits, english_number
from ..spans import before, span

# Bounded, so that a run of digits is not looked at from each of its places: longer runs are read
# digit by digit before.
NUMBER = r"(?:(?:\d{1,3}(?:,\d{3}){1,6}(?!\d)|\d{1,20})(?:\.\d{1,20})?|(?<![\w.])\.\d{1,20})"

SCALES = {
    "k": "thousand", "m": "million", "mm": "million", "mn": "million", "bn": "billion",
    "b": "billion", "tn": "trillion", "t": "trillion", "mln": "million", "bln": "billion",
    "trn": "trillion", "thousand": "thousand", "million": "million",
    "billion": "billion", "trillion": "trillion", "lakh": "lakh", "lakhs": "lakh",
    "crore": "crore", "crores": "crore", "cr": "crore",
}  # fmt: skip

# What is counted in millions: a plural, and no verb or preposition that looks like one.
_COUNTED = (
    r"(?!(?:is|was|as|has|this|us|across|towards|less|plus|minus|does|times|thus|vs|yes|always)\b)"
    r"(?:[a-z]{2,}s|people|men|women|children)\b"
)
_DECIMAL = r"\d{1,20}(?:\.\d{1,20})?"


def _scaled(match: re.Match[str]) -> str:
    return f"{english_number(match[1])} {SCALES[match[match.lastindex or 0].lower()]}"


AMOUNTS = (
    # A comma before the decimals: 67,5 m3.
    span(
        "decimal commas",
        r"(?<![\w.,])\d{1,3},\d{1,2}(?=\s?(?:[kcm]?m[23]?|k?g|m?l|M?T|t)\b)",
        lambda match: english_number(match[0].replace(",", ".")),
    ),
    # Indian groups, points, apostrophes and spaces between groups: 5,00,000, 1.234.567, 1'234'567.
    span(
        "foreign groups",
        r"(?<![\d,.])\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])|"
        r"(?<![\w.])[1-9]\d{0,2}(?:\.\d{3}){2,6}(?![\w.]*\d)|"
        r"(?<![\d.,'])\d{1,3}(?:'\d{3})+(?![\d'])|"
        r"(?<![\d.,] )(?<![\d.,])\d{1,3}(?: \d{3}){2,}(?![\d ]*\d)",
        lambda match: english_number(re.sub(r"\D", "", match[0])),
    ),
    span(
        "scales",
        # "5.1B" is a part of a whole: no room and no flight has one.
        rf"(?<![\w.$€£])({_DECIMAL})(?:(?:(?<=\.\d)|(?<=\.\d\d))(B)(?![\w-])|"
        rf"(?![48]K)(k|K|m|mn|M|bn|B)(?=\s(?:mi\b|{_COUNTED}))|"
        r"\s?(mn|mln|bn|bln|tn|trn|k(?!\s(?:run|race|video|monitor|screen)))\b)",
        _scaled,
    ),
)
NUMBERS = (
    span(
        "digits beside letters",
        r"(?<=[A-Za-z])\d{4,20}(?:\.\d{1,20})?|(?<![\d.])\d{5,19}(?=[A-Z])(?<!00)",
        lambda match: " point ".join(map(english_digits, match[0].split("."))),
    ),
    span("hyphens beside letters", r"(?<=[A-Za-z])-(?=\d)|(?<=\d)-(?=[A-Za-z])", " "),
    span(
        "numbers",
        NUMBER,
        lambda match: " " * (before(match, 1) == "'") + english_number(match[0]),  # AC'97
    ),
)
