"""English abbreviations: their readings, and whether their full stop ends a sentence."""

from __future__ import annotations

import re

from ..readers import either
from ..spans import span
from .calendar import MONTHS
from .labels import AIRPORT_NEXT, ALL, is_label
from .short_words import has_no_vowel, is_abbreviation

# A word always follows these, so their full stop never ends a sentence.
_LEADING = {
    "mr": "mister", "mrs": "missus", "ms": "miss", "dr": "doctor", "prof": "professor",
    "st": "saint", "mt": "mount", "lt": "lieutenant", "sgt": "sergeant", "capt": "captain",
    "gen": "general", "gov": "governor", "rev": "reverend", "sen": "senator", "col": "colonel",
    "maj": "major", "cpl": "corporal", "hon": "honorable", "pres": "president",
    "rep": "representative",
    "e.g": "for example", "i.e": "that is", "vs": "versus", "cf": "compare",
    "approx": "approximately", "fr": "father", "supt": "superintendent", "adm": "admiral",
    "cmdr": "commander", "pvt": "private", "atty": "attorney", "messrs": "messers",
    "viz": "namely", "esp": "especially", "sta": "santa",
}  # fmt: skip
# Those of persons that are other words, too: "rep. from *", "Rev. $4.2B", "(fr. Greek)".
_OF_NAMES = ("rep", "rev", "fr", "gen", "col", "maj", "sen", "hon", "pres", "adm", "cpl", "sta")

# These end a sentence when a capital letter follows.
_TRAILING = {
    "etc": "et cetera", "&c": "et cetera", "jr": "junior", "sr": "senior",
    "inc": "incorporated", "ltd": "limited", "corp": "corporation", "co": "company",
    "dept": "department", "ave": "avenue", "blvd": "boulevard",
    "rd": "road", "a.m": "a m", "p.m": "p m", "ph.d": "p h d",
    "al": "al", "bros": "brothers", "assn": "association", "univ": "university",
    "govt": "government", "intl": "international", "natl": "national", "mfg": "manufacturing",
    "avail": "available", "misc": "miscellaneous", "mins": "minutes", "secs": "seconds",
    "hrs": "hours", "yrs": "years", "mos": "months", "wks": "weeks", "lbs": "pounds",
    "pts": "points", "acct": "account", "accts": "accounts", "pcs": "pieces", "elev": "elevation",
    "tpke": "turnpike", "bdrm": "bedroom", "cts": "courts", "pkg": "package",
}  # fmt: skip

_TIMES = ("sec", "min", "hr", "wk", "mo", "yr")  # so do these

_READINGS = {**_LEADING, **_TRAILING}
_DOTTED = re.compile(r"(?<![A-Za-z.])(?:[A-Za-z]\.){2,}")

# The parties of a case: "Roe v. Wade".
_PARTIES = re.compile(r"(?<![\w.'’])[A-Z][\w.'’]*,?\sv\Z")
_LAST_WORD = re.compile(
    r"(?:(?<![0-9A-Za-z])[A-Za-z](?:[A-Za-z.]{0,30}[A-Za-z])?|(?<=\d)[AaPp]\.[Mm])$"
)
_LIST_NUMBER = re.compile(r"\s{0,32}\d{1,3}")  # with nothing before it on its line
_NEXT = re.compile(r"[\s\"'“‘(]{0,64}(\S)")
# Words that begin a sentence and no name: "plan B. Then we left", but "John B. Smith".
_OPENS_SENTENCE = re.compile(
    r"(?:The|Then|This|That|These|Those|There|It|Its|He|She|We|They|You|My|His|Her|Our|Their|But|And|"
    r"So|If|When|While|After|Before|In|On|At|For|From|To|What|Why|How|Not|No|Yes|All|I|An|As|By|With|"
    r"Now|Please|Who|Where|Which|Just|Some|Each|Every|Any|One|Can|Could|Do|Does|Did|Is|Are|Was|Were|"
    r"Will|Would|Have|Has|Had|Let|Also|Still|Even|Here|Once|Since|Until|Thanks|Suppose|A(?!\.))\b"
)
# A day and a zone behind an hour, and a point of the compass: "10 a.m. Sun., Jan. 5", "9 a.m. ET",
# "2 mos. N of it".
_NO_OPENER = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}(?:\.,?|,)\s|[NSEW]\s|"
    r"(?:[ECMP][SD]?T|GMT|UTC|CET|BST)\b|"
    rf"(?:{'|'.join(map(str.title, MONTHS))})[a-z]{{0,6}}\.?\s\d"
)
_LOOK_BACK = 32  # characters; longer than any abbreviation
# Behind an abbreviation: an initial, or another one: "Fed. R.", "Yale Med. Bull.".
_AMOUNT = re.compile(r"\d|#|[$€£~<>±+-]{1,2}\s?\d")
_CAPITALS = re.compile(r"[A-Z](?:[A-Z\d]|\b(?![.'’]))")  # "arr. LHR", "4 mi. N of town"
_SINGLE = "bcdefghjlmopqsvw"  # no unknowns, and none that a chat has as a word
# What begins no sentence in lower case: "sent. to", but "to be honest" and "of course" do.
_NO_BEGINNING = re.compile(
    r"(?:to(?! be\b)|of(?! course\b)|by(?! the way\b)|than|upon|per)\s[a-z\d]"
)
_CHAINED = re.compile(r"([A-Z][a-z]{0,4})\.")


def ends_sentence(text: str, stop: int, end: int) -> bool:
    """Return whether the full stop at ``text[stop]`` ends a sentence, by the words around it.

    ``end`` is where the text continues, after the quotes and tags that belong to the stop.
    """
    following = _NEXT.match(text, end)
    if not following or following[1] in ",;:=&/|":
        return not following
    before = text[max(0, stop - _LOOK_BACK) : stop]
    if _LIST_NUMBER.fullmatch(before):
        return False
    match = _LAST_WORD.search(before)
    word = match[0] if match else ""
    key = word.lower()
    if key in _LEADING or (word == "v" and _PARTIES.search(before)):
        return False
    if word in _TIMES or (key in _TRAILING and (key != "al" or before.endswith("et al"))):
        return following[1].isupper() and not _NO_OPENER.match(text, following.start(1))
    if key in MONTHS:
        return not following[1].isdigit()
    if is_label(text, stop):
        return False
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    if is_initial and _OPENS_SENTENCE.match(text, following.start(1)):
        return True
    if is_initial or _DOTTED.fullmatch(word + "."):
        return False
    return not _goes_on(word, text, following.start(1))


def _goes_on(word: str, text: str, place: int) -> bool:
    """Return whether a word that no table has is an abbreviation, by what is at ``place``."""
    is_letter = len(word) == 1 and word in _SINGLE
    if text[place].islower() or _AMOUNT.match(text, place):
        is_short = word.islower() and len(word) <= 4
        return (
            is_letter
            or is_abbreviation(word)
            or bool(is_short and _NO_BEGINNING.match(text, place))
        )
    if word.islower():
        is_short = is_letter or has_no_vowel(word)
        is_short |= is_abbreviation(word) and (word in ALL or bool(_CAPITALS.match(text, place)))
        return is_short and not _OPENS_SENTENCE.match(text, place)
    if not word.istitle():
        return False
    if word.lower() in ALL and AIRPORT_NEXT.match(text, place):
        return True
    chained = _CHAINED.match(text, place)
    if chained and chained[1].lower() not in _LEADING:
        return is_abbreviation(word) or (len(word) <= 5 and is_abbreviation(chained[1]))
    return has_no_vowel(word)


def _read(match: re.Match[str]) -> str | None:
    key, next_one = match[1].lower(), _NEXT.match(match.string, match.end())
    if key == "al" and not match.string.endswith("et ", 0, match.start()):
        return None  # a name
    is_before_name = next_one is not None and next_one[1].isupper()
    if key in _OF_NAMES and not (match[1][0].isupper() and (is_before_name or not next_one)):
        return match[1]
    if key == "cts" and match.string[match.start() - 2 : match.start()].strip().isdigit():
        return "counts" + _kept_stop(match)
    reading = "street" if key == "st" and not is_before_name else _READINGS[key]
    return reading + _kept_stop(match)


def _spell(match: re.Match[str]) -> str:
    return " ".join(match[0].replace(".", "")) + _kept_stop(match)


def _kept_stop(match: re.Match[str]) -> str:
    return "." if ends_sentence(match.string, match.end() - 1, match.end()) else ""


def _inner_stop(match: re.Match[str]) -> str | None:
    """Return nothing for a full stop that ends no sentence, of an abbreviation in no table."""
    text, stop = match.string, match.start()
    before = text[max(0, stop - _LOOK_BACK) : stop]
    word = _LAST_WORD.search(before)
    if word is None:
        return None
    is_closed = text[match.end()] == ")"
    # A sentence in brackets begins with a capital letter: no "(sic.) Then" nor "(11 inn.) Then".
    _, bracket, note = before.rpartition("(")
    is_note = is_closed and bracket and re.match(r"[a-z\d]", note)
    is_inner = match["mark"] is not None or is_note
    return "" if is_inner or not ends_sentence(text, stop, match.end() + is_closed) else None


ABBREVIATIONS = (
    span("Fort", r"\bFt\.(?=\s[A-Z][a-z])", "fort"),
    span("doctors", r"\bPhD\b", "P H D"),
    span("abbreviations", rf"(?i)(?<![\w.])({either(_READINGS)})\.", _read),
    span("eras", r"(?<=\d )([AB])\.([DC])\b(?!\.)", r"\1 \2"),
    span("letters with stops", _DOTTED, _spell),
    span("initials", r"(?<![A-Za-z.°])[A-HJ-Z]\.(?=[\s,;])", _spell),
    span(
        "titles without a stop",
        r"\b(?:Mr|Mrs|Ms|Dr|Prof)(?= [A-Z])",
        lambda match: _LEADING[match[0].lower()],
    ),
    span(
        "stops inside of a sentence",
        rf"\.(?:(?<=[A-Za-z]{{2}}\.)|(?<=[\s(][{_SINGLE}]\.)|(?<=\d[AaPp]\.[Mm]\.)|"
        r"(?<=\d [AaPp]\.[Mm]\.))"
        r"(?:(?P<mark>(?=\)?[,;:/]|[-–]\d))|(?=\)|[\"”’]\s[a-z]|\s{1,4}(?:[\"'(]?[A-Za-z\d]|[$€£#~<>±+=&/|—–-])))",
        _inner_stop,
        without_digits=True,
    ),
)
