"""Numbers in digits as English texts write them, and foreign ways of writing them."""

from __future__ import annotations

import re

from ..numbers import english_digits, english_number
from ..readers import Rule, rewrite

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
_FOREIGN: list[Rule] = [
    # A comma before the decimals: 67,5 m3.
    (
        re.compile(r"(?<![\w.,])(\d{1,3}),(\d{1,2})(?=\s?(?:[kcm]?m[23]?|k?g|m?l|M?T|t)\b)"),
        r"\1.\2",
    ),
    # Indian groups: 5,00,000 is 500,000.
    (
        re.compile(r"(?<![\d,.])\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])"),
        lambda match: match[0].replace(",", ""),
    ),
    # Points between groups: 1.234.567.
    (
        re.compile(r"(?<![\w.])[1-9]\d{0,2}(?:\.\d{3}){2,6}(?![\w.]*\d)"),
        lambda match: match[0].replace(".", ""),
    ),
    # A space or an apostrophe between groups: 1 234 567 and 1'234'567.
    (
        re.compile(r"(?<![\d.,'])\d{1,3}(?:'\d{3})+(?![\d'])"),
        lambda match: match[0].replace("'", ""),
    ),
    (
        re.compile(r"(?<![\d.,] )(?<![\d.,])\d{1,3}(?: \d{3}){2,}(?![\d ]*\d)"),
        lambda match: match[0].replace(" ", ""),
    ),
]
_SCALED: list[Rule] = [
    # A part of a whole: no room and no flight has one.
    (
        re.compile(r"(?<![\w.$€£-])(\d{1,4}\.\d{1,3})B(?![\w-])"),
        lambda match: f"{match[1]} billion",
    ),
    (
        re.compile(rf"(?<![\w.$€£])(\d{{1,20}}(?:\.\d{{1,20}})?)(k|m|mn|M|bn|B)(?=\s{_COUNTED})"),
        lambda match: f"{match[1]} {SCALES[match[2].lower()]}",
    ),
    (
        re.compile(
            r"(?<![\w.$€£])(\d{1,20}(?:\.\d{1,20})?)\s?(mn|mln|bn|bln|tn|trn|k(?!\s(?:run|race|video|monitor|screen)))\b"
        ),
        lambda match: f"{match[1]} {SCALES[match[2]]}",
    ),
]
_REST: list[Rule] = [
    (re.compile(r"(?<=[A-Za-z])\d{4,}"), lambda match: f" {english_digits(match[0])}"),
    (re.compile(r"(?<=[A-Za-z])-?(?=\d)|(?<=\d)-?(?=[A-Za-z])"), " "),
]
_LAST: list[Rule] = [(re.compile(NUMBER), lambda match: f" {english_number(match[0])} ")]


def join_foreign_groups(text: str) -> str:
    """Return ``text`` with numbers whose digits are not in groups of three after commas joined."""
    return rewrite(text, _FOREIGN)


def read_scales(text: str) -> str:
    """Return ``text`` with the scale of counted things as a word: "9.7m soldiers"."""
    return rewrite(text, _SCALED)


def part_from_letters(text: str) -> str:
    """Return ``text`` with a space between letters and digits; long numbers of codes are digits."""
    return rewrite(text, _REST)


def read_numbers(text: str) -> str:
    """Return ``text`` with every number as words, and so without a digit."""
    return rewrite(text, _LAST)
