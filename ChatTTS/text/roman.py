"""Read roman numerals, where the words around them show that they are numbers."""

from __future__ import annotations

import re

from .number_words import english_number, english_ordinal
from .spans import span

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

_AFTER_A_NAME = 20  # beyond it a word of these letters is rather an abbreviation


def _number(match: re.Match[str]) -> str:
    return english_number(str(value_of(match[0])))


def _ordinal(match: re.Match[str]) -> str:
    return english_ordinal(str(value_of(match[0])))


def value_of(numeral: str) -> int:
    values = [_VALUES[letter] for letter in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )


ROMAN = (
    span("numerals alone", rf"\A(?=[IVX]{{2}}){NUMERAL}\Z", _number),
    # "King George V", but not "King George I met".
    span(
        "rulers",
        rf"(?<=[a-z]\s)(?:{LONGER}\b|[VX]\b|I(?=\s(?:of|was|and|is)\b|['’]s\b|[,.;)]|$))",
        lambda match: f"the {_ordinal(match)}",
        behind=rf"\b(?:(?:{_TITLES}) [A-Z][a-z]+|(?:{_RULERS}))\s\Z",
    ),
    span(
        "numbered parts",
        rf"(?:{LONGER}|\b[IVX])\b",
        _number,
        behind=rf"\b(?:{_NUMBERED}|{_NUMBERED.upper()})\s\Z",
    ),
    span("ages", rf"\b(?:{LONGER}|[VX])(?=\s(?:century|centuries|dynasty|Olympiad)\b)", _ordinal),
    span(
        "numerals behind a name",
        rf"(?<=[a-z] ){LONGER}\b",
        lambda match: _number(match) if value_of(match[0]) <= _AFTER_A_NAME else None,
        behind=r"\b[A-Z][a-z]+ \Z",
    ),
)
