"""Abbreviated nouns that mean something beside a number only: "vol. X", "Lat. 40.5", "3rd fl."."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..readers import either
from ..roman import LONGER, value_of
from ..spans import span
from .stops import may_end_sentence

# Parts of books and buildings, roads and the like: a number or a roman numeral follows.
_NAMED = {
    "no": "number", "nos": "numbers", "vol": "volume", "vols": "volumes", "p": "page",
    "pp": "pages", "pg": "page", "pgs": "pages", "fig": "figure", "figs": "figures",
    "ch": "chapter", "chap": "chapter", "chs": "chapters", "sec": "section", "sect": "section",
    "secs": "sections", "art": "article", "arts": "articles", "bk": "book", "pt": "part",
    "para": "paragraph", "eq": "equation", "ex": "example", "app": "appendix", "iss": "issue",
    "ver": "version", "ep": "episode", "op": "opus", "dkt": "docket", "tel": "telephone",
    "ext": "extension", "apt": "apartment", "ste": "suite", "rm": "room", "bldg": "building",
    "fl": "floor", "flr": "floor", "rte": "route", "rt": "route", "hwy": "highway",
    "flt": "flight", "ln": "line", "lvl": "level", "sched": "schedule", "amend": "amendment",
    "cl": "clause", "div": "division", "ref": "reference", "blk": "block", "fol": "folio",
    "ll": "lines", "vv": "verses", "mvt": "movement", "mm": "measures", "doc": "document",
    "acct": "account", "prop": "proposition", "res": "resolution", "exp": "experiment",
    "inv": "invoice",
}  # fmt: skip
# What is measured: a number follows, maybe with a sign before it.
_MEASURED = {
    "ca": "circa", "c": "circa", "lat": "latitude", "long": "longitude", "lon": "longitude",
    "elev": "elevation", "alt": "altitude", "temp": "temperature", "temps": "temperatures",
    "pop": "population", "min": "minimum", "max": "maximum", "avg": "average",
    "qty": "quantity", "wt": "weight", "ht": "height", "dia": "diameter", "est": "estimated",
    "incl": "including", "excl": "excluding", "vel": "velocity", "dist": "distance",
    "arr": "arriving", "dep": "departing", "n": "note",
    "nn": "notes", "adm": "admission", "srs": "seniors",
}  # fmt: skip
# Behind an ordinal: "the 3rd fl.", "2nd ed.", "the 19th c.".
_ORDERED = {
    "fl": "floor", "flr": "floor", "ed": "edition", "eds": "editions", "c": "century",
    "cent": "century", "gr": "grade", "amend": "amendment", "cir": "circuit", "inn": "inning",
    "min": "minute", "mvt": "movement",
}  # fmt: skip
# Behind a number and before a word, in kitchens.
_OF_FOOD = {
    "c": "cup", "t": "teaspoon", "T": "tablespoon", "pkg": "package", "env": "envelope",
    "stk": "stick", "lg": "large", "med": "medium", "sm": "small", "doz": "dozen",
}  # fmt: skip
_UNCOUNTED = ("large", "medium", "small", "dozen")
_LIVES = {"b": "born", "d": "died", "r": "reigned", "m": "married"}

# Words, too, where one of these stands before them.
_WORDS = {
    "long": re.compile(
        r"\b(?:is|are|was|were|be|been|too|so|very|how|as|not|all|\w{2,20}ly|feet|foot|inch|meter|"
        r"mile|day|before|for|(?:hour|day|year|mile|minute|month|week|meter|inche|yard|time)s)\s\Z",
        re.IGNORECASE,
    ),
    "max": re.compile(r"[a-z]\s\Z"),
    "temp": re.compile(r"\ba\s\Z"),
    "pop": re.compile(r"\b(?:a|to|the|of|and|go|will)\s\Z"),
    "ref": re.compile(r"\bthe\s\Z"),
    "app": re.compile(r"\b(?:the|an|this|our|my)\s\Z"),
    "art": re.compile(r"\b(?:the|of|in|an|and|is)\s\Z"),
    "ex": re.compile(r"\b(?:my|her|his|an)\s\Z"),
    "pt": re.compile(r"\b(?:dew|boiling|melting|freezing|set|match)\s\Z"),
}
_LOOK_BACK = 32  # characters
_SIGN = r"[~≈<>≥≤(+#$€£\s−-]{0,3}"
_NUMBER_NEXT = re.compile(rf"\s?(?:[Nn]os?\.\s)?{_SIGN}\.?\d")
# "vol. I" may be followed by a noun, "the vol. I think" by a verb.
_ROMAN = rf"(?:{LONGER}\b|[VX]\b|I\b(?!['’]|\s[a-z]))"
_LETTER_NEXT = re.compile(r"\s[A-HJ-Z]\d{0,3}\b(?![.'’]\w)")
_LETTER_ALONE = re.compile(r"\s[A-HJ-Z](?=[,;:)]|\.?\Z)")
AIRPORT_NEXT = re.compile(r"\s?[A-Z]{3}\b(?![.'’])")  # "Dep. SFO"
_CODE_NEXT = re.compile(r"\s[A-Z]{1,5}[-/]?\d")
_CLAUSE_ENDS = re.compile(r"\s{0,8}(?:[,;:)\n]|\Z)")
_BEATEN_NEXT = re.compile(r"(?:\s[A-Z][\w.'’-]{0,20}){1,3},?\s\d{1,3}-\d")
_NO_LETTERS = ("no", "nos", "tel", "ref", "ver")
_ROMAN_NEXT = re.compile(rf"\s{_ROMAN}")
_UNIT_BEFORE = re.compile(r"\d\s?\Z")
_ONE_BEFORE = re.compile(r"(?<![\d/.-])(?:1|(?<!\d )\d/\d{1,2})\s\Z")
_ORDINAL_BEFORE = re.compile(
    r"(?:\b\d{1,4}(?:st|nd|rd|th)|\b(?:first|second|third|[a-z]{2,12}th|ground|top))\s\Z",
    re.IGNORECASE,
)
_DATE_NEXT = re.compile(
    r"\s(?:\(\d\)\s?)?(?:abt\.?\s|ca?\.\s?)?(?:\d{3,4}\b|\d{1,2}\s[A-Z]|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))"
)
_YEAR_NEXT = re.compile(r"\s(?:1[5-9]|20)\d\d(?!\d|,\d)")
_BEFORE_WORDS = ("est", "max", "min", "avg", "temp", "pop")
_WORD_NEXT = re.compile(r"\s[a-z]{3}")
_NO_NEXT = re.compile(r"\sNos?\.\s?\d")
_FOOD_NEXT = re.compile(r"\s(?:[a-z]{3}|[+&])")
_NAME_NEXT = re.compile(r"\s[A-Z][a-z]{2}")
_PAIRED = re.compile(r"\s(?:and|or)\s(?:max|min)\b|/\s?max\b")
_PAIR_BEFORE = re.compile(r"\bmin(?:\.|imum)?\s?(?:and\s|or\s|/)\Z", re.IGNORECASE)
ALL = {*_NAMED, *_MEASURED, *_ORDERED, *_LIVES, *map(str.lower, _OF_FOOD)}


def label_at(text: str, start: int, stop: int) -> str | None:
    """Return the noun for the abbreviation ``text[start:stop]``, whose full stop is at ``stop``.

    ``None`` means that the words and numbers around it do not show that it is one.
    """
    word = text[start:stop]
    key, after = word.lower(), stop + (text[stop : stop + 1] == ".")
    before = text[max(0, start - _LOOK_BACK) : start]
    food = _OF_FOOD.get(word) or _OF_FOOD.get(key if len(key) > 1 else "")
    is_size = key in ("lg", "sm") and before[-1:].isspace()
    if (
        food
        and (is_size or _UNIT_BEFORE.search(before))
        and (_FOOD_NEXT.match(text, after) or (word in "tT" and _NAME_NEXT.match(text, after)))
    ):
        return food if food in _UNCOUNTED or _ONE_BEFORE.search(before) else f"{food}s"
    if len(word) == 1 and word.isupper():
        return None  # an initial
    if key in _ORDERED and _ORDINAL_BEFORE.search(before):
        return _ORDERED[key]
    if key in _LIVES and word.islower() and _DATE_NEXT.match(text, after):
        return _LIVES[key]
    if key in ("min", "max") and (_PAIRED.match(text, after) or _PAIR_BEFORE.search(before)):
        return _MEASURED[key]
    if word == "d" and _BEATEN_NEXT.match(text, after):
        return "defeated"
    if key in ("incl", "excl") and _CLAUSE_ENDS.match(text, after):
        return f"{_MEASURED[key][:-3]}ed"
    if key not in ("n", "nn", "no", "nos", "vol") and (
        _is_word(word, before) or _UNIT_BEFORE.search(before)
    ):
        return None
    if key == "est" and _YEAR_NEXT.match(text, after):
        return "established"
    if key in _BEFORE_WORDS and _WORD_NEXT.match(text, after):
        return _MEASURED[key]
    if key in ("arr", "dep") and AIRPORT_NEXT.match(text, after):
        return _MEASURED[key]
    if word == "App" and _NO_NEXT.match(text, after):
        return "application"
    if key in _NAMED and key != "no" and _ROMAN_NEXT.match(text, after):
        return _NAMED[key]
    if key in _NAMED and _CODE_NEXT.match(text, after):
        return _NAMED[key]
    if key in _NAMED and (_LETTER_NEXT if word.istitle() else _LETTER_ALONE).match(text, after):
        return _NAMED[key] if key not in _NO_LETTERS else None
    return (_NAMED.get(key) or _MEASURED.get(key)) if _NUMBER_NEXT.match(text, after) else None


def _is_word(word: str, before: str) -> bool:
    pattern = None if word == "max" else _WORDS.get(word.lower())
    return pattern is not None and pattern.search(before) is not None


def is_label(text: str, stop: int) -> bool:
    """Return whether the full stop ``text[stop]`` belongs to a label and ends no sentence."""
    match = _LABEL_BEFORE.search(text, max(0, stop - _LOOK_BACK), stop)
    if match is None or (noun := label_at(text, match.start(), stop)) is None:
        return False
    return noun not in _ORDERED.values() or not may_end_sentence(text, stop + 1)


_LABEL_BEFORE = re.compile(rf"(?<![\w.])(?:{either(ALL)})\Z", re.IGNORECASE)


def _say(match: re.Match[str]) -> str | None:
    text, stop = match.string, match.end() - 1
    noun = label_at(text, match.start(), stop)
    if noun is None:
        return None
    if noun in _ORDERED.values() and may_end_sentence(text, match.end()):
        return f"{noun}."
    return noun + ("" if text[match.end() : match.end() + 1].isspace() else " ")


def _say_roman(match: re.Match[str]) -> str | None:
    noun = label_at(match.string, match.start(), match.end("noun"))
    return noun and f"{noun} {english_number(str(value_of(match['numeral'])))}"


def _say_pages(match: re.Match[str]) -> str:
    said = [_NAMED[match["noun"]], _roman(match["first"])]
    return " ".join([*said, "to", _roman(match["last"])] if match["last"] else said)


def _roman(numeral: str) -> str:
    return english_number(str(value_of(numeral.upper())))


LABELS = (
    span(
        "labels with a roman numeral",
        rf"(?<![\w.])(?P<noun>(?i:{either(set(_NAMED) - {'no'})}))\.\s(?P<numeral>{_ROMAN})",
        _say_roman,
    ),
    span(
        "pages before a text",
        r"\b(?P<noun>pp?)\.\s(?P<first>[ivxl]{1,7})(?:\s?[-–—]\s?(?P<last>[ivxl]{1,7}))?\b",
        _say_pages,
    ),
    span("labels", rf"(?i)(?<![\w.])(?:{either(ALL)})\.(?![A-Za-z]|\.\.)", _say),
    span(
        "each",
        r"(?<=\w )ea(?:\.|(?=\s?[,;)]|\Z))(?!\w)",
        lambda match: "each." if may_end_sentence(match.string, match.end()) else "each",
    ),
    # "Cat. No. 12": of what, the text does not say in full, but its stop ends no sentence.
    span(
        "abbreviations before a number",
        r"\b([A-Z][a-z]{1,4}|L)\.(?=\s[Nn]os?\.\s?\d)",
        lambda match: match[1],
    ),
    span(
        "labels without a full stop",
        r"\b(?:Rte|Rt|Hwy|Flt|Rm|Bldg|Vol|Fig|Ch|Chap|Sec|Pg|Apt|Ste|Ext|Pt|Bk|Ep)(?=\s\d)",
        lambda match: _NAMED[match[0].lower()],
    ),
)
