"""Numbers in digits as English texts write them, and foreign ways of writing them."""

from __future__ import annotations

from ..numbers import english_digits, english_number
from ..readers import Rule, rule

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
FOREIGN_GROUPS: list[Rule] = [
    # A comma before the decimals: 67,5 m3.
    rule(r"(?<![\w.,])(\d{1,3}),(\d{1,2})(?=\s?(?:[kcm]?m[23]?|k?g|m?l|M?T|t)\b)", r"\1.\2"),
    # Indian groups: 5,00,000 is 500,000.
    rule(r"(?<![\d,.])\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])", lambda match: match[0].replace(",", "")),
    # Points between groups: 1.234.567.
    rule(
        r"(?<![\w.])[1-9]\d{0,2}(?:\.\d{3}){2,6}(?![\w.]*\d)",
        lambda match: match[0].replace(".", ""),
    ),
    # A space or an apostrophe between groups: 1 234 567 and 1'234'567.
    rule(r"(?<![\d.,'])\d{1,3}(?:'\d{3})+(?![\d'])", lambda match: match[0].replace("'", "")),
    rule(
        r"(?<![\d.,] )(?<![\d.,])\d{1,3}(?: \d{3}){2,}(?![\d ]*\d)",
        lambda match: match[0].replace(" ", ""),
    ),
]
SCALED: list[Rule] = [
    # A part of a whole: no room and no flight has one.
    rule(r"(?<![\w.$€£-])(\d{1,4}\.\d{1,3})B(?![\w-])", lambda match: f"{match[1]} billion"),
    rule(
        rf"(?<![\w.$€£])(?![48]K)(\d{{1,20}}(?:\.\d{{1,20}})?)(k|K|m|mn|M|bn|B)(?=\s(?:mi\b|{_COUNTED}))",
        lambda match: f"{match[1]} {SCALES[match[2].lower()]}",
    ),
    rule(
        r"(?<![\w.$€£])(\d{1,20}(?:\.\d{1,20})?)\s?(mn|mln|bn|bln|tn|trn|k(?!\s(?:run|race|video|monitor|screen)))\b",
        lambda match: f"{match[1]} {SCALES[match[2]]}",
    ),
]
BESIDE_LETTERS: list[Rule] = [
    rule(r"(?<=[A-Za-z])\d{4,}", lambda match: f" {english_digits(match[0])}"),
    rule(r"(?<=[A-Za-z])-?(?=\d)|(?<=\d)-?(?=[A-Za-z])", " "),
]
NUMBERS: list[Rule] = [rule(NUMBER, lambda match: f" {english_number(match[0])} ")]
