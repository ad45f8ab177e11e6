"""Read digits and symbols in English.

Each rule replaces only what it recognizes with certainty. ``wetext`` reads single spans: a date, a
clock time, an ordinal, a fraction, a year. For whole sentences its English grammar is not used: it
rewrites plain words and rejects some texts. All other digits are read as plain numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .abbreviations import MONTHS, expand_abbreviations
from .numbers import LONG_RUN, english_digits, english_number
from .quantities import (
    DEGREES,
    FRACTION,
    MEASURE,
    MONEY,
    NUMBER,
    PERCENT,
    say_degrees,
    say_measure,
    say_money,
    say_percent,
)

Ask = Callable[[str], "str | None"]  # the grammar: the words of a span, or None

_MONTHS = "|".join([*dict.fromkeys(MONTHS.values()), "May", "Sept", *map(str.title, MONTHS)])
_MONTH = rf"(?P<month>{_MONTHS})\b\.?"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?\b(?![:.,]\d)"
_YEAR = r"(?P<year>(?:1[1-9]|20)\d\d)\b"

# II to XX, without the single letters
_ROMAN = {
    "II": "2", "III": "3", "IV": "4", "VI": "6", "VII": "7", "VIII": "8", "IX": "9", "XI": "11",
    "XII": "12", "XIII": "13", "XIV": "14", "XV": "15", "XVI": "16", "XVII": "17", "XVIII": "18",
    "XIX": "19", "XX": "20",
}  # fmt: skip
# Spelled out although they have a vowel; capitals without a vowel are always spelled out.
_INITIALISMS = "AI|API|ATM|CEO|CFO|CIA|CPU|EU|FAQ|FBI|GPU|IBM|IP|UI|UK|UN|URL|USA|USB|VIP"
_NOT_SPELLED = "(?:HM+|SH+|PSST|BR+|GR+|Z+|TSK|PFFT|MR|MRS|MS|DR|ST|LTD|VS)"

_SYMBOLS = {
    "%": "percent", "‰": "per mille", "&": "and", "@": "at", "+": "plus", "=": "equals",
    "×": "times", "÷": "divided by", "±": "plus or minus", "≈": "about", "≤": "at most",
    "≥": "at least", "≠": "is not", "°": "degrees", "$": "dollars", "€": "euros", "£": "pounds",
    "¥": "yen", "¢": "cents", "^": "to the power of",
}  # fmt: skip


def read_english(text: str, ask: Ask) -> str:
    """Return ``text`` with numbers, abbreviations and symbols as words, without ASCII digits."""

    def asked(match: re.Match[str]) -> str:
        return _asked(match[0], ask)

    text = LONG_RUN.sub(lambda match: english_digits(match[0]), text)
    text = _WEB_ADDRESS.sub(_web_address, text)
    text = _HALF_DAY.sub(lambda match: f" {match[1].lower()} m", text)
    text = expand_abbreviations(text)
    text = _CALENDAR_DATE.sub(lambda match: _asked(re.sub(r"\D", "-", match[0]), ask), text)
    text = _PHONE.sub(_phone, text)
    text = _RANGE.sub(" to ", _SUBTRACTION.sub(" minus ", text))
    text = _MONTH_FIRST.sub(lambda match: _month_first(match, ask), text)
    text = _DAY_FIRST.sub(lambda match: _day_first(match, ask), text)
    text = _CLOCK.sub(lambda match: _clock(match, ask), text)
    text = _VERSION.sub(_version, text)
    text = MONEY.sub(say_money, text)
    text = PERCENT.sub(say_percent, text)
    text = DEGREES.sub(say_degrees, text)
    text = _DECADE.sub(lambda match: _decade(match, ask), text)
    text = _ORDINAL.sub(asked, text)
    text = FRACTION.sub(lambda match: _fraction(match, ask), text)
    text = MEASURE.sub(say_measure, text)
    text = _BY.sub(" by ", _TIMES.sub(" times", text))
    for pattern, words in _BEFORE_NUMBERS:
        text = pattern.sub(words, text)
    text = _ROMAN_NUMERAL.sub(lambda match: f"{match[1]} {english_number(_ROMAN[match[2]])}", text)
    text = _SPELLED.sub(lambda match: " ".join(match[0]), text)
    text = _CODE.sub(lambda match: f" {english_digits(match[0])}", text)
    text = _BOUNDARY.sub(" ", text)
    text = _LONE_YEAR.sub(asked, text)
    text = _NUMBER.sub(lambda match: f" {english_number(match[0])} ", text)
    return _SYMBOL.sub(lambda match: f" {_SYMBOLS[match[0]]} ", text)


_ENDINGS = (
    "com|org|net|edu|gov|io|ai|dev|app|co|uk|de|fr|eu|cn|jp|me|tv|info|"
    "md|txt|pdf|html|css|js|ts|py|json|yaml|toml|csv|xml|png|jpg|gif|zip|mp3|mp4|wav|exe"
)
_WEB_ADDRESS = re.compile(
    r"(?:https?://|www\.)[^\s<>\[\]\"，。]*[^\s<>\[\]\"，。.,;:!?)'*_]"
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[A-Za-z][\w-]*)+"
    rf"|(?<![\w.@-])[A-Za-z][\w-]*(?:\.[\w-]+)*\.(?:{_ENDINGS})\b(?:/[\w./-]*\w)?"
)
_HALF_DAY = re.compile(r"(?<=\d)\s?([AaPp])[Mm]\b")
_CALENDAR_DATE = re.compile(
    r"(?<![\w./-])(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4})(?![\w/-]|\.\d)"
)
_PHONE = re.compile(
    r"(?<![\w.])(?:\+\d{1,3}[\s.-]?)?(?:\(\d{2,4}\)\s?|\b\d{3}[\s.-])\d{3}[\s.-]\d{4}\b"
    r"|(?<![\w.+])\+\d[\d\s()-]{6,}\d\b"
    r"|(?<![\w.-])(?:\d{3}-\d{4}|\d{2,}(?:-\d+){2,})\b(?!-)"
)
_SUBTRACTION = re.compile(r"(?<=\d)\s-\s(?=\d+\s*=)")
_RANGE = re.compile(r"(?:(?<=[\d%])|(?<=\d [ap] m))(?:[-–—~]|\s[-–—~]\s)(?=[$€£¥]?\d)")
_MONTH_FIRST = re.compile(rf"\b{_MONTH}\s{_DAY}(?:,?\s{_YEAR})?")
_DAY_FIRST = re.compile(
    rf"(?<![\w.,$€£¥])(?P<the>[Tt]he\s)?{_DAY}(?:\sof)?\s{_MONTH}(?:,?\s{_YEAR})?"
)
_CLOCK = re.compile(
    r"(?<![\w:.])(\d{1,2}):(\d{2})(:\d{2})?(?P<half>\s[ap] m\b)?(?![\d:])|(\d):(?=\d)"
)
_VERSION = re.compile(r"(?<![\w.])(v\.?\s?)?(\d+(?:\.\d+)*)(?!\w)")
_DECADE = re.compile(r"(?<![\w.])'?((?:1[1-9]|20)\d0|\d0)s\b")
_ORDINAL = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b")
_TIMES = re.compile(r"(?<=\d)[x×](?!\w)")
_BY = re.compile(r"(?<=\d)\s?[x×]\s?(?=\d)")
_BEFORE_NUMBERS = [
    (re.compile(r"(?<![\w)])[-−](?=\.?\d|[$€£¥]\d)"), " minus "),
    (re.compile(r"#\s?(?=\d)"), " number "),
    (re.compile(r"#(?=\w)"), " hashtag "),
    (re.compile(r"~\s?(?=\d)"), " about "),
    (re.compile(r"(?<=\d)\s?\*\s?(?=\d)"), " times "),
    (re.compile(r"[-=]+>"), " "),
    (re.compile(r"(?:(?<=\s)<(?=\s)|<(?=\s?\d))"), " less than "),
    (re.compile(r"(?:(?<=\s)>(?=\s)|>(?=\s?\d))"), " more than "),
]
_ROMAN_NUMERAL = re.compile(rf"\b([A-Z][a-z]+) ({'|'.join(_ROMAN)})\b")
_SPELLED = re.compile(
    rf"\b(?!{_NOT_SPELLED}\b)(?:[B-DF-HJ-NP-TV-XZ]{{2,5}}|{_INITIALISMS})\b|(?<=\b[Tt]he )US\b"
)
_CODE = re.compile(r"(?<=[A-Za-z])\d{4,}")
_BOUNDARY = re.compile(r"(?<=[A-Za-z])-?(?=\d)|(?<=\d)-?(?=[A-Za-z])")
_LONE_YEAR = re.compile(r"(?<![\w.,:])(?:1[1-9]|20)\d\d(?!\w|[.,:]\d)")
_NUMBER = re.compile(NUMBER)
_SYMBOL = re.compile("|".join(map(re.escape, _SYMBOLS)))


def _asked(span: str, ask: Ask) -> str:
    """Return the grammar's words for ``span``, else its plain numbers."""
    words = ask(span)
    if words and re.fullmatch(r"[A-Za-z' -]+", words):
        return words
    return " ".join(english_number(number) for number in re.findall(r"\d+", span))


def _web_address(match: re.Match[str]) -> str:
    """Return an address as it is spoken, without scheme and query."""
    said = re.sub(r"^(?:https?://)?(?:www\.)?", "", re.split(r"[?#]", match[0])[0]).rstrip("/")
    for symbol, word in ((".", "dot"), ("/", "slash"), ("-", "dash"), ("_", "underscore")):
        said = said.replace(symbol, f" {word} ")
    return said


def _phone(match: re.Match[str]) -> str:
    """Return the digits one by one, with a pause between groups."""
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(english_digits(group) for group in re.findall(r"\d+", match[0]))


def _month_first(match: re.Match[str], ask: Ask) -> str:
    year = f", {_asked(match['year'], ask)}" if match["year"] else ""
    return f"{_month(match)} {_ordinal(match['day'], ask)}{year}"


def _day_first(match: re.Match[str], ask: Ask) -> str:
    year = f" {_asked(match['year'], ask)}" if match["year"] else ""
    return f"{match['the'] or 'the '}{_ordinal(match['day'], ask)} of {_month(match)}{year}"


def _month(match: re.Match[str]) -> str:
    return MONTHS.get(match["month"].lower(), match["month"])


def _ordinal(day: str, ask: Ask) -> str:
    ending = "th" if day[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(day[-1], "th")
    return _asked(day.lstrip("0") + ending, ask)


def _clock(match: re.Match[str], ask: Ask) -> str:
    """Return a time of day; other pairs of numbers (a score, 16:9) are read with "to"."""
    half = match["half"] or ""
    if match[1] is None:
        return f"{match[5]} to "
    if int(match[1]) > 23 or int(match[2]) > 59:
        return match[0].replace(":", " to ")
    if match[2] == "00" and half:
        return english_number(match[1].lstrip("0") or "12") + half
    return _asked(f"{int(match[1])}:{match[2]}{match[3] or ''}", ask) + half


def _version(match: re.Match[str]) -> str:
    parts = match[2].split(".")
    if not match[1] and len(parts) < 3:
        return match[0]
    return ("version " if match[1] else "") + " point ".join(map(english_number, parts))


def _decade(match: re.Match[str], ask: Ask) -> str:
    words = _asked(match[1], ask) if len(match[1]) == 4 else english_number(match[1])
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def _fraction(match: re.Match[str], ask: Ask) -> str:
    if int(match[3]) >= int(match[4]):
        return match[0]
    whole = f"{english_number(match[1])} and " if match[1] else ""
    return whole + ("a half" if whole and match[2] == "1/2" else _asked(match[2], ask))
