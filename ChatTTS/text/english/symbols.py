"""Read initials, signs and symbols in English."""

from __future__ import annotations

import re
import unicodedata

from ..readers import Rule, rule

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
    return f"{first}{word}{second}"


SIGNS_AT_NUMBERS: list[Rule] = [
    rule(r"#\s?(?=\d|[A-Z]{1,2}-?\d)", " number "),
    rule(r"#(?=\w)", " hashtag "),
    rule(r"(?<![-=])[-=]+>", " "),
    rule(r"(?<=[A-Z]);(?=[A-Z])", " "),  # TL;DR
    rule(r"\A//|:\s?/(?!\w)|(?<=<)/|/(?=>)", " "),  # comments, faces and tags
    rule(
        r"(?<![\w/.])\.?\d{1,9}(?:\.\d{1,9})?(?:/\.?\d{1,9}(?:\.\d{1,9})?){2,9}",
        lambda match: match[0].replace("/", ", "),
    ),
    rule(r"(?<![\w/.])([A-Za-z]|and|\d{1,4})/([A-Za-z]|or|\d{1,4})(?![\w/])", _pair),
    rule(r"\s?/\s?", " slash "),
    rule(r"(?<=[\w)\]]) \* (?=[\w(])|(?<=\d)\s?\*\s?(?=\d)", " times "),
    rule(r"\*(?=[^\s*])|(?<=\d)\*(?!\*)", " star "),
]
INITIALS: list[Rule] = [
    rule(
        rf"\b([B-DF-HJ-NP-TV-XZ]{{2,4}}|{_INITIALISMS})s\b", lambda match: f"{' '.join(match[1])}'s"
    ),
    rule(
        rf"\b(?!{_NOT_SPELLED}\b)(?:[B-DF-HJ-NP-TV-XZ]{{2,5}}|{_INITIALISMS})\b"
        r"|(?<=\b[Tt]he )US\b|\bAD(?= \d)|(?<=\d )(?:AD|B?CE)\b",
        lambda match: " ".join(match[0]),
    ),
]
SYMBOLS: list[Rule] = [
    rule("|".join(map(re.escape, _SYMBOLS)), lambda match: f" {_SYMBOLS[match[0]]} "),
    # Arrows, signs of mathematics and currencies by their names in Unicode.
    rule(
        r"[\u20a0-\u20cf\u2190-\u22ff\u27c0-\u27ff\u2900-\u2aff]",
        lambda match: f" {unicodedata.name(match[0], '').lower().removesuffix(' sign')} ",
    ),
]


def unquote_numbers(text: str) -> str:
    """Return ``text`` without the quotes whose closing one stands behind a number.

    They are not spoken, and the closing one would be taken for inches. Where a quote is left over,
    only single words are taken to be quoted.
    """
    return (_SHORT_QUOTE if text.count('"') % 2 else _QUOTED_NUMBER).sub(r"\1", text)
