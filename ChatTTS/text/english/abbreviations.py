"""English abbreviations: their readings, and whether their full stop ends a sentence."""

from __future__ import annotations

import re

from ..numbers import english_digits, english_ordinal
from ..spans import span
from .codes import say_in_pairs
from .labels import AIRPORT_NEXT, ALL, is_label
from .measures import UNITS
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

MONTHS = {
    "jan": "January", "feb": "February", "mar": "March", "apr": "April", "jun": "June",
    "jul": "July", "aug": "August", "sep": "September", "sept": "September", "oct": "October",
    "nov": "November", "dec": "December",
}  # fmt: skip

_READINGS = {**_LEADING, **_TRAILING, **MONTHS}
_ABBREVIATION = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, _READINGS))})\.", re.IGNORECASE)
_TITLE_WITHOUT_STOP = re.compile(r"\b(Mr|Mrs|Ms|Dr|Prof)(?= [A-Z])")
_DOTTED = re.compile(r"(?<![A-Za-z.])(?:[A-Za-z]\.){2,}")
_INITIAL = re.compile(r"(?<![A-Za-z.°])[A-HJ-Z]\.(?=[\s,;])")

# Kinds of streets behind a name: "1428 Elm St. It was", "on Elm Dr." and "Elm Ave, Town".
_STREETS = {
    "St": "street", "Ave": "avenue", "Blvd": "boulevard", "Rd": "road", "Dr": "drive",
    "Ln": "lane", "Ct": "court", "Pl": "place", "Sq": "square", "Hwy": "highway",
    "Expy": "expressway", "Pkwy": "parkway", "Ter": "terrace", "Cir": "circle",
}  # fmt: skip
_KIND = "|".join(_STREETS)
_FULL_KIND = "|".join(map(str.title, _STREETS.values())) + "|Way|Row"
_DIRECTIONS = {"N": "North", "S": "South", "E": "East", "W": "West"}
_ADDRESS = re.compile(
    rf"(?<![\w.,])(?P<number>\d{{1,5}})(?P<letter>[A-Z]?)\s(?:(?P<way>[NSEW]\.?)\s)?"
    rf"(?P<rest>(?:(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th))\s){{1,3}})"
    rf"(?P<kind>(?i:{_KIND})|{_FULL_KIND})\b(?P<stop>\.?)(?!\w)"
)
STATES = {
    "AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California",
    "CO": "Colorado", "CT": "Connecticut", "DE": "Delaware", "FL": "Florida", "GA": "Georgia",
    "HI": "Hawaii", "ID": "Idaho", "IL": "Illinois", "IN": "Indiana", "IA": "Iowa",
    "KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana", "ME": "Maine", "MD": "Maryland",
    "MA": "Massachusetts", "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi",
    "MO": "Missouri", "MT": "Montana", "NE": "Nebraska", "NV": "Nevada", "NH": "New Hampshire",
    "NJ": "New Jersey", "NM": "New Mexico", "NY": "New York", "NC": "North Carolina",
    "ND": "North Dakota", "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon", "PA": "Pennsylvania",
    "RI": "Rhode Island", "SC": "South Carolina", "SD": "South Dakota", "TN": "Tennessee",
    "TX": "Texas", "UT": "Utah", "VT": "Vermont", "VA": "Virginia", "WA": "Washington",
    "WV": "West Virginia", "WI": "Wisconsin", "WY": "Wyoming", "DC": "D C",
}  # fmt: skip
_STATE = re.compile(
    r"((?:\b[A-Z][a-z]{3,}|[a-z](?!, (?:PA|MA|ID|AL|DE))), )(?!IN|OR|ME|OK|HI|OH)"
    rf"({'|'.join(STATES)})(?=$|[.,;:)])"
)
_ERA = re.compile(r"(?<=\d )([AB])\.([DC])\b(?!\.)")
_PLACE = re.compile(
    rf"(?:(?<=, )|(?<=[a-z] ))({'|'.join(STATES)})\.?,?\s(\d{{5}})(?:-(\d{{4}}))?(?![\d,.]*\d)"
)
# A capital after it would make it "saint" or "doctor" of the next name.
_STREET = re.compile(
    rf"\b((?!Mount|Fort|Port|The|And|But|So)(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th))\s)"
    rf"({_KIND})(?:(\.)(?!\s[A-Z]|\w)|(?=,|$))"
)
WEEKDAYS = {
    "mon": "Monday", "tue": "Tuesday", "tues": "Tuesday", "wed": "Wednesday", "thu": "Thursday",
    "thur": "Thursday", "thurs": "Thursday", "fri": "Friday", "sat": "Saturday", "sun": "Sunday",
}  # fmt: skip
_AFTER_WEEKDAY = (
    rf"(?:{'|'.join(map(str.title, MONTHS))}|January|February|March|April|May|June|July|August|"
    r"September|October|November|December)\b|\d|till\b|until\b|noon\b|morning\b|afternoon\b|evening\b|night\b"
)
# "Mon", "Sat" and "Sun" are words, too: "it said Sat." and "on Sun. at ten", but "under the Sun."
_WEEKDAY = re.compile(
    rf"\b(Tues?|Wed|Thu(?:rs?)?|Fri)\b(?:\.(?=,|\s[a-z\d@(&]|,?\s(?:{_AFTER_WEEKDAY})))?"
    rf"|\b(Mon)\b(?:\.(?=,)|\.?(?=,?\s(?:{_AFTER_WEEKDAY}|to\b|and\b|-)))"
    rf"|\b(Sat|Sun)\b\.?(?=,?\s(?:{_AFTER_WEEKDAY}))|(?<=\bto )(Mon|Sat|Sun)\b"
    r"|(?<=[a-z,)] )(?<!the )(Mon|Sat|Sun)(?:\.(?=\s[a-z])|(?=\.\s{0,8}\Z))"
)
_DAY = "(Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)"
_WEEK = re.compile(rf"\b{_DAY}\.?\s?[-–]\s?{_DAY}\b\.?(?!\w)")
_BESIDE_MONTH = re.compile(r"(?:and|or|to|through|of)\s|,\s\d|[-–]")
_FORT = re.compile(r"\bFt\.(?=\s[A-Z][a-z])")
_DEGREE = re.compile(r"\bPhD\b")

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
_MEASURED = (*UNITS, "a.m", "p.m", "A.M", "P.M")
_LOOK_BACK = 32  # characters; longer than any abbreviation
# What expand_abbreviations reads together with its stop.
_READ_LATER = re.compile(rf"\bFt\Z|(?:[A-Z][a-z]+|\d(?:st|nd|rd|th))\s(?:{_KIND})\Z")
# Behind an abbreviation: an initial, or another one: "Fed. R.", "Yale Med. Bull.".
_AMOUNT = re.compile(r"\d|#|[$€£~<>±+-]{1,2}\s?\d")
_CAPITALS = re.compile(r"[A-Z](?:[A-Z\d]|\b(?![.'’]))")  # "arr. LHR", "4 mi. N of town"
_SINGLE = "bcdefghjlmopqsvw"  # no unknowns, and none that a chat has as a word
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
    if key in _TRAILING and (key != "al" or before.endswith("et al")):
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
        return is_letter or is_abbreviation(word)
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


def expand_abbreviations(text: str) -> str:
    """Write abbreviations out; a full stop stays where it ends a sentence."""
    text = _ERA.sub(r"\1 \2", _STATE.sub(lambda match: match[1] + STATES[match[2]], text))
    text = _STREET.sub(_street, text)
    text = _WEEK.sub(
        lambda match: f"{WEEKDAYS[match[1].lower()]} to {WEEKDAYS[match[2].lower()]}", text
    )
    text = _WEEKDAY.sub(lambda match: WEEKDAYS[match[match.lastindex or 0].lower()], text)
    text = _ABBREVIATION.sub(_read, _DEGREE.sub("P H D", _FORT.sub("fort", text)))
    text = _INITIAL.sub(_spell, _DOTTED.sub(_spell, text))
    return _TITLE_WITHOUT_STOP.sub(lambda match: _LEADING[match[1].lower()], text)


def _inner_stop(match: re.Match[str]) -> str | None:
    """Return nothing for a full stop that ends no sentence, of an abbreviation in no table."""
    text, stop = match.string, match.start()
    before = text[max(0, stop - _LOOK_BACK) : stop]
    word = _LAST_WORD.search(before)
    if word is None or _READ_LATER.search(before):
        return None
    is_unit = re.search(r"\d\s?\Z", before[: word.start()])  # that a measure reads without its stop
    if word[0].lower() in _READINGS and not (is_unit and word[0] in _MEASURED):
        return None
    is_closed = text[match.end()] == ")"
    # A sentence in brackets begins with a capital letter: no "(sic.) Then" nor "(11 inn.) Then".
    _, bracket, note = before.rpartition("(")
    is_note = is_closed and bracket and re.match(r"[a-z\d]", note)
    is_inner = match["mark"] is not None or is_note
    return "" if is_inner or not ends_sentence(text, stop, match.end() + is_closed) else None


INNER_STOPS = (
    span(
        "stops inside of a sentence",
        rf"\.(?:(?<=[A-Za-z]{{2}}\.)|(?<=[\s(][{_SINGLE}]\.)|(?<=\d[AaPp]\.[Mm]\.)|"
        r"(?<=\d [AaPp]\.[Mm]\.))"
        r"(?:(?P<mark>(?=\)?[,;:/]|[-–]\d))|(?=\)|[\"”’]\s[a-z]|\s{1,4}(?:[\"'(]?[A-Za-z\d]|[$€£#~<>±+=&/|—–-])))",
        _inner_stop,
        without_digits=True,
    ),
)


def _read(match: re.Match[str]) -> str:
    key, after = match[1].lower(), match.string[match.end() :].lstrip()
    if key == "al" and not match.string.endswith("et ", 0, match.start()):
        return match[0]  # a name
    is_title = match[1][0].isupper() and (not after or after[:1].isupper())
    if key in _OF_NAMES and not is_title:
        return match[1]
    if key in MONTHS and match[1].istitle() and (after[:1].islower() or _BESIDE_MONTH.match(after)):
        return MONTHS[key]
    if key in MONTHS and not after.lstrip("(+")[:1].isdigit():
        return match[0]
    if key == "cts" and match.string[match.start() - 2 : match.start()].strip().isdigit():
        return "counts" + _kept_stop(match)
    reading = "street" if key == "st" and not after[:1].isupper() else _READINGS[key]
    return reading + _kept_stop(match)


def _spell(match: re.Match[str]) -> str:
    return " ".join(match[0].replace(".", "")) + _kept_stop(match)


def _address(match: re.Match[str]) -> str:
    """Return an address: its number in pairs, the direction, and the kind of street."""
    number = match["number"]
    number = say_in_pairs(number) if len(number) in (3, 4) and number[-2] != "0" else number
    way = f"{_DIRECTIONS[match['way'][0]]} " if match["way"] else ""
    kind = match["kind"]
    kind = _STREETS.get(kind.capitalize(), kind) + (_stop_before(match) if match["stop"] else "")
    letter = f" {match['letter']}" if match["letter"] else ""
    rest = re.sub(r"\d\w+", lambda ordinal: english_ordinal(ordinal[0]), match["rest"])
    return f"{number}{letter} {way}{rest}{kind}"


def _place(match: re.Match[str]) -> str:
    rest = f", {english_digits(match[3])}" if match[3] else ""
    return f"{STATES[match[1]]} {english_digits(match[2])}{rest}"


def _street(match: re.Match[str]) -> str:
    return match[1] + _STREETS[match[2]] + (_stop_before(match) if match[3] else "")


def _stop_before(match: re.Match[str]) -> str:
    """Return a full stop if a new sentence, or nothing, follows the match."""
    following = _NEXT.match(match.string, match.end())
    return "." if following is None or following[1].isupper() else ""


def _kept_stop(match: re.Match[str]) -> str:
    return "." if ends_sentence(match.string, match.end() - 1, match.end()) else ""


PLACES_OF_MAIL = (
    span("street addresses", _ADDRESS, _address),
    span("codes of places", _PLACE, _place),
)
