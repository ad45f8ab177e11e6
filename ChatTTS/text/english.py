"""Read digits and symbols in English.

Each rule replaces only what it recognizes with certainty. ``wetext`` reads single spans: a date, a
clock time, an ordinal, a fraction, a year. For whole sentences its English grammar is not used: it
rewrites plain words and rejects some texts. All other digits are read as plain numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .abbreviations import MONTHS, expand_abbreviations
from .codes import read_codes
from .formulas import read_formulas
from .numbers import LONG_RUN, english_digits, english_number
from .quantities import (
    DEGREES,
    FRACTION,
    NUMBER,
    PERCENT,
    read_measures,
    read_money,
    read_other_fractions,
    say_degrees,
    say_percent,
)
from .roman import read_roman, with_ending
from .signs import name_emoji, name_greek

Ask = Callable[[str], "str | None"]  # the grammar: the words of a span, or None

# In lower case, "may" and "march" are verbs; "mar" is one, too.
_ANY_CASE = "|".join(
    word
    for month in sorted({*MONTHS, *map(str.lower, MONTHS.values())}, key=len, reverse=True)
    for word in ([] if month in ("mar", "march") else [month])
)
_MONTHS = f"(?i:{_ANY_CASE})|May|MAY|March|MARCH|Mar|MAR"
_MONTH = rf"(?P<month>{_MONTHS})\b\.?"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?\b(?![:.,]\d)"
_YEAR = r"(?P<year>(?:1[1-9]|20)\d\d)\b"

# Spelled out although they have a vowel; capitals without a vowel are always spelled out.
_INITIALISMS = (
    "ADHD|AI|AOL|API|ATM|CEO|CFO|CIA|CPU|DIY|DNA|EPA|ESPN|EST|ETA|EU|FAA|FAQ|FBI|FY|GPA|GPU|HBO|HIV|"
    "IBM|ICU|IMF|IP|IPO|IQ|IRS|ISBN|ISO|ISP|MBA|MIT|NBA|NYU|OECD|OTP|RNA|SUV|UAE|UCLA|UFO|UI|UK|UN|"
    "URL|USA|USB|UTC|VIP"
)
_NOT_SPELLED = "(?:HM+|SH+|PSST|BR+|GR+|Z+|TSK|PFFT|MR|MRS|MS|DR|ST|LTD|VS)"

_SYMBOLS = {
    "%": "percent", "‰": "per mille", "&": "and", "@": "at", "+": "plus", "=": "equals",
    "×": "times", "÷": "divided by", "±": "plus or minus", "≈": "about", "≤": "at most",
    "≥": "at least", "≠": "is not", "°": "degrees", "$": "dollars", "€": "euros", "£": "pounds",
    "¥": "yen", "¢": "cents", "₹": "rupees", "₩": "won", "^": "to the power of",
    "∞": "infinity", "√": "the square root of", "∑": "the sum", "∫": "the integral of",
    "∈": "is in", "→": "to", "§": "section", "©": "copyright",
}  # fmt: skip


def read_english(text: str, ask: Ask) -> str:
    """Return ``text`` with numbers, abbreviations and symbols as words, without ASCII digits."""

    def asked(match: re.Match[str]) -> str:
        return _asked(match[0], ask)

    text = LONG_RUN.sub(lambda match: english_digits(match[0]), text)
    text = name_emoji(text)
    text = _WEB_ADDRESS.sub(_web_address, text)
    text = _DOTTED_TIME.sub(":", _DOTTED_HALF.sub(r" \1.\2.", text))
    text = _HALF_DAY.sub(lambda match: f" {match[1].lower()} m", text)
    text = expand_abbreviations(text)
    text = _CALENDAR_DATE.sub(lambda match: _asked(re.sub(r"\D", "-", match[0]), ask), text)
    text = _SHORT_DATE.sub(lambda match: _short_date(match, ask), text)
    text = _PHONE.sub(_phone, read_codes(text))
    text = read_formulas(text)
    text = _DASHED_MONTH.sub(_dashed_month, text)
    text = _RANGE.sub(" to ", _SUBTRACTION.sub(" minus ", text))
    text = _MINUS.sub(" minus ", text)
    text = _LOWER_MAY.sub("May", text)
    text = _MONTH_FIRST.sub(lambda match: _month_first(match, ask), text)
    text = _DAY_FIRST.sub(lambda match: _day_first(match, ask), text)
    text = _CLOCK.sub(lambda match: _clock(match, ask), text)
    text = _VERSION.sub(_version, text)
    text = read_money(text)
    text = PERCENT.sub(say_percent, text)
    text = DEGREES.sub(say_degrees, text)
    text = _DECADE.sub(lambda match: _decade(match, ask), text)
    text = _ORDINAL.sub(asked, _FRACTION_ENDING.sub("", text))
    text = FRACTION.sub(lambda match: _fraction(match, ask), text)
    text = read_other_fractions(text)
    text = _BY.sub(" by ", _TIMES.sub(" times", text))
    text = name_greek(read_measures(text), "en")
    for pattern, words in _BEFORE_NUMBERS:
        text = pattern.sub(words, text)
    text = read_roman(text, lambda number: _asked(number, ask))
    text = _INITIALS_PLURAL.sub(lambda match: f"{' '.join(match[1])}'s", text)
    text = _SPELLED.sub(lambda match: " ".join(match[0]), text)
    text = _CODE.sub(lambda match: f" {english_digits(match[0])}", text)
    text = _BOUNDARY.sub(" ", text)
    text = _LONE_YEAR.sub(lambda match: _year(match[0], ask), text)
    text = _NUMBER.sub(lambda match: f" {english_number(match[0])} ", text)
    return _SYMBOL.sub(lambda match: f" {_SYMBOLS[match[0]]} ", text)


_ENDINGS = (
    "com|org|net|edu|gov|io|ai|dev|app|co|uk|de|fr|eu|cn|jp|me|tv|info|"
    "md|txt|pdf|html|css|js|ts|py|json|yaml|toml|csv|xml|png|jpg|gif|zip|mp3|mp4|wav|exe"
)
_WEB_ADDRESS = re.compile(
    r"(?:(?:https?|ftp|file)://|www\.)[^\s<>\[\]\"，。]*[^\s<>\[\]\"，。.,;:!?)'*_]"
    r"|(?<![\w.+-])[\w.+&-]+@[\w-]+(?:\.[A-Za-z][\w-]*)+(?:/[\w./-]*\w)?"
    rf"|(?<![\w.@-])[A-Za-z][\w-]*(?:\.[\w-]+)*\.(?:{_ENDINGS})\b(?::\d+)?(?:/[\w./-]*\w)?"
)
_ADDRESS_SIGNS = (
    (".", "dot"),
    ("/", "slash"),
    ("-", "dash"),
    ("_", "underscore"),
    (":", "colon"),
    ("&", "and"),
)
_HALF_DAY = re.compile(r"(?<=\d)\s?([AaPp])[Mm]\b")
_CALENDAR_DATE = re.compile(
    r"(?<![\w./-])(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4})(?![\w/-]|\.\d)"
)
_SHORT_DATE = re.compile(
    r"(?<![\w/.-])(?P<month>0?[1-9]|1[0-2])/(?P<day>0?[1-9]|[12]\d|3[01])/(?P<year>\d\d)(?![\w/])"
)
# "1:00a.m." and "1 a.m": as they are written most often.
_DOTTED_HALF = re.compile(r"(?<=\d)\s?([AaPp])\.([Mm])(?:\.|(?![\w.]))")
_DOTTED_TIME = re.compile(r"(?<=\d)\.(?=[0-5]\d\s?[AaPp]\.?[Mm]\b)")
_FRACTION_ENDING = re.compile(r"(?<=\d/\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_PHONE = re.compile(
    r"(?<![\w.])(?:(?:\+\d{1,3}|1)[\s.-]?)?(?:\(\d{2,4}\)[\s-]?|\b\d{3}[\s.-])\d{3}[\s.-]\d{4}\b(?:-\d{1,4}\b)?"
    r"|(?<![\w.+])\+\d[\d\s()-]{6,}\d\b"
    r"|(?<![\w.-])(?:\d{3}-\d{4}|\d{2,}(?:-\d+){2,})\b(?!-)"
)
_SUBTRACTION = re.compile(r"(?<=\d)\s?-\s?(?=\d+\s*=)")
_MINUS = re.compile(r"(?<![\w)])[-−](?=\.?\d|[$€£¥₹₩]\d)")
_RANGE = re.compile(r"(?:(?<=[\d%])|(?<=\ds)|(?<=\d [ap] m))(?:[-–—~]|\s[-–—~]\s)(?=[$€£¥]?\d)")
_MONTH_FIRST = re.compile(
    rf"\b{_MONTH}\s{_DAY}(?:\sto\s(?P<last>\d\d?)(?!\w|[:.]\d|\s[ap] m))?(?:,?\s{_YEAR})?"
)
_LOWER_MAY = re.compile(r"(?<=\d )may(?= (?:1[1-9]|20)\d\d\b)")
_DASHED_MONTH = re.compile(rf"\b{_MONTH}-(?P<day>0?[1-9]|[12]\d|3[01])(?:-{_YEAR})?(?![\w-])")
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
    (re.compile(r"#\s?(?=\d)"), " number "),
    (re.compile(r"#(?=\w)"), " hashtag "),
    (re.compile(r"~\s?(?=\d)"), " about "),
    (re.compile(r"(?<=\d)\s?\*\s?(?=\d)"), " times "),
    (re.compile(r"[-=]+>"), " "),
    (re.compile(r"(?<=[A-Za-z]{3})\s?/\s?(?=[A-Za-z]{3})"), " slash "),
    (re.compile(r"(?<=\b[a-z0-9])<(?=[a-z0-9]\b)"), " less than "),
    (re.compile(r"(?<=\b[a-z0-9])>(?=[a-z0-9]\b)"), " more than "),
    (re.compile(r"(?:(?<=\s)<(?=\s)|<(?=\s?\d))"), " less than "),
    (re.compile(r"(?:(?<=\s)>(?=\s)|>(?=\s?\d))"), " more than "),
]
_SPELLED = re.compile(
    rf"\b(?!{_NOT_SPELLED}\b)(?:[B-DF-HJ-NP-TV-XZ]{{2,5}}|{_INITIALISMS})\b|(?<=\b[Tt]he )US\b"
    r"|\bAD(?= \d)|(?<=\d )(?:AD|B?CE)\b"
)
_INITIALS_PLURAL = re.compile(rf"\b([B-DF-HJ-NP-TV-XZ]{{2,4}}|{_INITIALISMS})s\b")
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
    said = re.sub(r"^(?:\w+:/+)?(?:www\.)?", "", re.split(r"[?#]", match[0])[0]).rstrip("/")
    said = re.sub(r"\d+", lambda digits: f" {english_digits(digits[0])} ", said)
    for symbol, word in _ADDRESS_SIGNS:
        said = said.replace(symbol, f" {word} ")
    return said


def _phone(match: re.Match[str]) -> str:
    """Return the digits one by one, with a pause between groups."""
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(english_digits(group) for group in re.findall(r"\d+", match[0]))


def _month_first(match: re.Match[str], ask: Ask) -> str:
    year = f", {_year(match['year'], ask)}" if match["year"] else ""
    last = f" to {_ordinal(match['last'], ask)}" if match["last"] else ""
    return f"{_month(match)} {_ordinal(match['day'], ask)}{last}{year}"


def _day_first(match: re.Match[str], ask: Ask) -> str:
    year = f" {_year(match['year'], ask)}" if match["year"] else ""
    return f"{match['the'] or 'the '}{_ordinal(match['day'], ask)} of {_month(match)}{year}"


def _month(match: re.Match[str]) -> str:
    return MONTHS.get(match["month"].lower(), match["month"].capitalize())


def _dashed_month(match: re.Match[str]) -> str:
    """Return a date such as Jan-15-2020 with spaces."""
    year = f", {match['year']}" if match["year"] else ""
    return f"{_month(match)} {match['day']}{year}"


def _short_date(match: re.Match[str], ask: Ask) -> str:
    """Return a date of two digits each, with the month first: 11/17/05."""
    month = [*dict.fromkeys(MONTHS.values())]
    month.insert(4, "May")
    year = match["year"]
    said = f"o {english_number(year[1])}" if year[0] == "0" else english_number(year)
    return f"{month[int(match['month']) - 1]} {_ordinal(match['day'], ask)}, {said}"


def _ordinal(day: str, ask: Ask) -> str:
    return _asked(with_ending(int(day)), ask)


def _year(year: str, ask: Ask) -> str:
    """Return a year; 1905 is "nineteen o five"."""
    if year[2] == "0" and year[3] != "0" and year[1] != "0":
        return f"{english_number(year[:2])} o {english_number(year[3])}"
    return _asked(year, ask)


def _clock(match: re.Match[str], ask: Ask) -> str:
    """Return a time of day; other pairs of numbers (a score, 16:9) are read with "to"."""
    half = match["half"] or ""
    if match[1] is None:
        return f"{match[5]} to "
    if int(match[1]) > 23 or int(match[2]) > 59:
        return match[0].replace(":", " to ")
    if match[2] == "00" and half:
        return english_number(match[1].lstrip("0") or "12") + half
    if match[3]:
        parts = zip((match[1], match[2], match[3][1:]), ("hour", "minute", "second"), strict=True)
        hours, minutes, seconds = (_counted(int(number), unit) for number, unit in parts)
        return f"{hours} {minutes} and {seconds}{half}"
    return _asked(f"{int(match[1])}:{match[2]}", ask) + half


def _counted(number: int, unit: str) -> str:
    return f"{english_number(str(number))} {unit}{'' if number == 1 else 's'}"


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
