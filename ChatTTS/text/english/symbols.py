"""Read initials, signs and symbols in English."""

from __future__ import annotations

import re
import unicodedata

from ..readers import either
from ..spans import span
from .calendar import say_number

# Spelled out although they have a vowel; capitals without a vowel are always spelled out.
_INITIALISMS = (
    "ADHD|AI|AOL|API|ATM|CEO|CFO|CIA|CPU|DIY|DNA|EPA|ESPN|EST|ETA|EU|FAA|FAQ|FBI|FY|GPA|GPU|HBO|HIV|"
    "IBM|ICU|IMF|IP|IPO|IQ|IRS|ISBN|ISO|ISP|MBA|MIT|NBA|NYU|OECD|OTP|RNA|SUV|UAE|UCLA|UFO|UI|UK|UN|"
    "URL|USA|USB|UTC|VIP"
)
_NOT_SPELLED = "(?:HM+|SH+|PSST|BR+|GR+|Z+|TSK|PFFT|MR|MRS|MS|DR|ST|LTD|VS)"
_SYMBOLS = {
    "&&": "and", "||": "or",
    "%": "percent", "‰": "per mille", "&": "and", "@": "at", "+": "plus", "=": "equals",
    "×": "times", "÷": "divided by", "±": "plus or minus", "≈": "about", "≤": "at most",
    "≥": "at least", "≠": "is not", "°": "degrees", "$": "dollars", "€": "euros", "£": "pounds",
    "¥": "yen", "¢": "cents", "₹": "rupees", "₩": "won", "^": "to the power of",
    "∞": "infinity", "√": "the square root of", "∑": "the sum", "∫": "the integral of",
    "∈": "is in", "→": "to", "§": "section", "©": "copyright",
}  # fmt: skip
_QUOTED_NUMBER = re.compile(r'(?<!\w)"(?=[^\s"])([^"\n]*\d[.,!?]?)"(?!\w)')
_SHORT_QUOTE = re.compile(r'(?<!\w)"([^\s"]{1,20}\d[.,!?]?|\d)"(?!\w)')


def _pair(match: re.Match[str]) -> str:
    """Return two letters or numbers; "A/C", "24/7", "60/40" and years need no word between."""
    first, second = match.groups()
    word = " slash "
    if first.isdigit() and second.isdigit():
        above, below = int(first), int(second)
        is_day = above <= 12 and below <= 31
        if is_day or above in (24, below, 100 - below) or len(first) == 4:
            word = " "
    elif first.isalpha() and second.isalpha():
        word = " "
    return word.join(say_number(each) if each.isdigit() else each for each in (first, second))


SIGNS = (
    span("numbers with their sign", r"#\s?(?=\d|[A-Z]{1,2}-?\d)", " number "),
    span("hashtags", r"#(?=\w)", " hashtag "),
    span("arrows alone", r"(?<![-=])[-=]+>", " "),
    span("capitals with a semicolon", r"(?<=[A-Z]);(?=[A-Z])", " "),  # TL;DR
    span("strokes of comments, faces and tags", r"\A//|:\s?/(?!\w)|(?<=<)/|/(?=>)", " "),
    span(
        "rows with strokes",
        r"(?<![\w/.])\.?\d{1,9}(?:\.\d{1,9})?(?:/\.?\d{1,9}(?:\.\d{1,9})?){2,9}",
        lambda match: ", ".join(map(say_number, match[0].split("/"))),
    ),
    span(
        "pairs with a stroke",
        r"(?<![\w/.])([A-Za-z]|and|\d{1,4})/([A-Za-z]|or|\d{1,4})(?![\w/]|\.\d)",
        _pair,
        without_digits=True,
    ),
    span("strokes", r"\s?/\s?", " slash "),
    span("products", r"(?<=[\w)\]]) \* (?=[\w(])|(?<=\d)\s?\*\s?(?=\d)", " times ", True),
    span("stars", r"\*(?=[^\s*])|(?<=[\d/])\*(?!\*)", " star ", True),
)
INITIALS = (
    span(
        "initials in the plural",
        rf"(?<![^\W\d])([B-DF-HJ-NP-TV-XZ]{{2,4}}|{_INITIALISMS})s(?![^\W\d])",
        lambda match: f"{' '.join(match[1])}'s",
        without_digits=True,
    ),
    span(
        "initials",
        rf"(?<![^\W\d])(?!{_NOT_SPELLED}(?![^\W\d]))(?:[B-DF-HJ-NP-TV-XZ]{{2,5}}|{_INITIALISMS})"
        r"(?![^\W\d])|(?<=\b[Tt]he )US\b|\bAD(?= \d)|(?<=\d )(?:AD|B?CE)\b",
        lambda match: " ".join(match[0]),
        without_digits=True,
    ),
)
SYMBOLS = (
    span("symbols", either(_SYMBOLS), lambda match: f" {_SYMBOLS[match[0]]} "),
    # Arrows, signs of mathematics and currencies by their names in Unicode.
    span(
        "symbols by their names",
        r"[\u20a0-\u20cf\u2190-\u22ff\u27c0-\u27ff\u2900-\u2aff]",
        lambda match: f" {unicodedata.name(match[0], '').lower().removesuffix(' sign')} ",
    ),
)


def unquote_numbers(text: str) -> str:
    """Return ``text`` without the quotes whose closing one stands behind a number.

    They are not spoken, and the closing one would be taken for inches. Where a quote is left over,
    only single words are taken to be quoted.
    """
    return (_SHORT_QUOTE if text.count('"') % 2 else _QUOTED_NUMBER).sub(r"\1", text)
