"""English abbreviations: their readings, and whether their full stop ends a sentence."""

from __future__ import annotations

import re

# A word always follows these, so their full stop never ends a sentence.
_LEADING = {
    "mr": "mister", "mrs": "missus", "ms": "miss", "dr": "doctor", "prof": "professor",
    "st": "saint", "mt": "mount", "lt": "lieutenant", "sgt": "sergeant", "capt": "captain",
    "gen": "general", "gov": "governor", "rev": "reverend", "sen": "senator",
    "e.g": "for example", "i.e": "that is", "vs": "versus", "cf": "compare",
    "approx": "approximately",
}  # fmt: skip

# These end a sentence when a capital letter follows.
_TRAILING = {
    "etc": "et cetera", "jr": "junior", "sr": "senior", "inc": "incorporated", "ltd": "limited",
    "corp": "corporation", "co": "company", "dept": "department", "ave": "avenue",
    "blvd": "boulevard", "rd": "road", "a.m": "a m", "p.m": "p m", "ph.d": "p h d",
}  # fmt: skip

MONTHS = {
    "jan": "January", "feb": "February", "mar": "March", "apr": "April", "jun": "June",
    "jul": "July", "aug": "August", "sep": "September", "sept": "September", "oct": "October",
    "nov": "November", "dec": "December",
}  # fmt: skip

# These are abbreviations only before a number; otherwise words at the end of a sentence.
_NUMBERED = {
    "no": "number", "nos": "numbers", "vol": "volume", "p": "page", "pp": "pages",
    "fig": "figure", "ch": "chapter", "sec": "section", **MONTHS,
}  # fmt: skip

_READINGS = {**_LEADING, **_TRAILING, **_NUMBERED}
_ABBREVIATION = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, _READINGS))})\.", re.IGNORECASE)
_TITLE_WITHOUT_STOP = re.compile(r"\b(Mr|Mrs|Ms|Dr|Prof)(?= [A-Z])")
_DOTTED = re.compile(r"(?<![A-Za-z.])(?:[A-Za-z]\.){2,}")
_INITIAL = re.compile(r"(?<![A-Za-z.])[A-HJ-Z]\.(?=\s)")

_LAST_WORD = re.compile(r"(?<![0-9A-Za-z])[A-Za-z](?:[A-Za-z.]*[A-Za-z])?$")
_LIST_NUMBER = re.compile(r"\s*\d{1,3}")  # with nothing before it on its line
_NEXT = re.compile(r"[\s\"'“‘(]*(\S)")
_LOOK_BACK = 32  # characters; longer than any abbreviation


def ends_sentence(text: str, stop: int, end: int) -> bool:
    """Return whether the full stop at ``text[stop]`` ends a sentence, by the words around it.

    ``end`` is where the text continues, after the quotes and tags that belong to the stop.
    """
    following = _NEXT.match(text, end)
    if not following:
        return True
    before = text[max(0, stop - _LOOK_BACK) : stop]
    if _LIST_NUMBER.fullmatch(before):
        return False
    match = _LAST_WORD.search(before)
    word = match[0] if match else ""
    key = word.lower()
    if key in _LEADING:
        return False
    if key in _TRAILING:
        return following[1].isupper()
    if key in _NUMBERED:
        return not following[1].isdigit()
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    return not (is_initial or _DOTTED.fullmatch(word + "."))


def expand_abbreviations(text: str) -> str:
    """Write abbreviations out; a full stop stays where it ends a sentence."""
    text = _ABBREVIATION.sub(_read, text)
    text = _DOTTED.sub(_spell, text)
    text = _INITIAL.sub(_spell, text)
    return _TITLE_WITHOUT_STOP.sub(lambda match: _LEADING[match[1].lower()], text)


def _read(match: re.Match[str]) -> str:
    key, after = match[1].lower(), match.string[match.end() :].lstrip()
    if key in _NUMBERED and not after[:1].isdigit():
        return match[0]
    reading = "street" if key == "st" and not after[:1].isupper() else _READINGS[key]
    return reading + _kept_stop(match)


def _spell(match: re.Match[str]) -> str:
    return " ".join(match[0].replace(".", "")) + _kept_stop(match)


def _kept_stop(match: re.Match[str]) -> str:
    return "." if ends_sentence(match.string, match.end() - 1, match.end()) else ""
