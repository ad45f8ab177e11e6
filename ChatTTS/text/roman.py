"""Read roman numerals, where the words around them show that they are numbers."""

from __future__ import annotations

import re

from .numbers import english_number, english_ordinal

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
# Each part may be empty, but not all of them: "ID" begins with a numeral's letter and is none.
NUMERAL = r"(?=[IVXLCDM])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?<=[IVXLCDM])"
# Without the single letters, which are initials or words.
LONGER = rf"(?=[IVXLCDM]{{2}}){NUMERAL}"

_RULERS = (
    "Henry|Louis|Charles|Elizabeth|George|Edward|William|James|Richard|Mary|Philip|Pius|Paul|"
    "Benedict|Francis|Leo|Innocent|Clement|Gregory|Napoleon|Alexander|Nicholas|Catherine|Peter|"
    "Ivan|Frederick|Wilhelm|Ramses|Ptolemy|Carlos|Alfonso|Ferdinand|Rudolf|Maximilian|Otto|"
    "Constantine|Harald|Haakon|Gustav|Christian|Emmanuel|Darius|Xerxes|Urban|Boniface|Sixtus|"
    "Robert|Margaret|Leopold|Albert|Joseph|Julius|Cleopatra|Mehmed|Selim|Murad|John|Thomas|Sam|David|"
    "Michael|Daniel|Walter|Erik|Eric|Stephen|Matthew|Andrew|Simon|Anne|Isabella|Juan|Pedro|Umberto|"
    "Victor|Hugh|Theodore|Conrad|Sigismund|Ludwig|Baldwin|Martin|Adrian|Eugene|Honorius|Justinian|"
    "Valentinian|Theodosius|Amenhotep|Thutmose|Cyrus|Artaxerxes|Vladimir|Casimir|Stanislaw|Ahmed|"
    "Mustafa|Osman|Abdul|Hassan|Rama|Chlothar|Childebert|Lothair"
)
_TITLES = "King|Queen|Pope|Emperor|Empress|Tsar|Czar|Prince|Sultan|Kaiser|Pharaoh"
_NUMBERED = (
    "Chapter|Part|Act|Scene|Volume|Book|Section|Article|Phase|Stage|Title|Division|World War|"
    "Super Bowl|Season|Unit|Lesson|Canto|Episode|Schedule|Annex|Tier|Category|Mark|Type|Class"
)

# "King George V", but not "King George I met".
_RULER = re.compile(
    rf"\b(?:(?:{_TITLES}) [A-Z][a-z]+|(?:{_RULERS}))\s(?:(?P<long>{LONGER}|V|X)\b|"
    rf"I(?=\s(?:of|was|and|is)\b|['’]s\b|[,.;)]|$))"
)
_NUMBERED_PART = re.compile(rf"\b(?:{_NUMBERED}|{_NUMBERED.upper()})\s({LONGER}|[IVX])\b")
_AGE = re.compile(rf"\b({LONGER}|[VX])(?=\s(?:century|centuries|dynasty|Olympiad)\b)")
_AFTER_NAME = re.compile(rf"\b([A-Z][a-z]+) ({LONGER})\b")
_ALONE = re.compile(rf"(?=[IVX]{{2}}){NUMERAL}")
_MOST_AFTER_NAME = 20  # beyond it a word of these letters is rather an abbreviation


def read_roman(text: str) -> str:
    """Return English ``text`` with its roman numerals as words."""
    if _ALONE.fullmatch(alone := text.strip()):
        return _number(alone)
    text = _RULER.sub(_ruler, text)
    text = _NUMBERED_PART.sub(lambda match: match[0][: -len(match[1])] + _number(match[1]), text)
    text = _AGE.sub(lambda match: english_ordinal(str(value_of(match[1]))), text)
    return _AFTER_NAME.sub(_after_name, text)


def _ruler(match: re.Match[str]) -> str:
    name, _, numeral = match[0].rpartition(" ")
    return f"{name} the {english_ordinal(str(value_of(numeral)))}"


def _after_name(match: re.Match[str]) -> str:
    if value_of(match[2]) > _MOST_AFTER_NAME:
        return match[0]
    return f"{match[1]} {_number(match[2])}"


def _number(numeral: str) -> str:
    return english_number(str(value_of(numeral)))


def value_of(numeral: str) -> int:
    values = [_VALUES[letter] for letter in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
