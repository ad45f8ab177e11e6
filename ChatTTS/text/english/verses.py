"""Verses of the Bible: "Mark 4:1-9", "1 Cor. 13:4"."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..readers import either
from ..spans import span

_SHORT = {
    "Gen": "Genesis", "Ex": "Exodus", "Exod": "Exodus", "Lev": "Leviticus", "Num": "Numbers",
    "Deut": "Deuteronomy", "Josh": "Joshua", "Judg": "Judges", "Sam": "Samuel", "Kgs": "Kings",
    "Chr": "Chronicles", "Chron": "Chronicles", "Neh": "Nehemiah", "Ps": "Psalm", "Pss": "Psalms",
    "Prov": "Proverbs", "Eccl": "Ecclesiastes", "Isa": "Isaiah", "Jer": "Jeremiah",
    "Lam": "Lamentations", "Ezek": "Ezekiel", "Dan": "Daniel", "Hos": "Hosea", "Mic": "Micah",
    "Hab": "Habakkuk", "Zech": "Zechariah", "Mal": "Malachi", "Matt": "Matthew", "Mt": "Matthew",
    "Mk": "Mark", "Lk": "Luke", "Jn": "John", "Rom": "Romans", "Cor": "Corinthians",
    "Gal": "Galatians", "Eph": "Ephesians", "Phil": "Philippians", "Col": "Colossians",
    "Thess": "Thessalonians", "Tim": "Timothy", "Heb": "Hebrews", "Jas": "James", "Pet": "Peter",
    "Rev": "Revelation",
}  # fmt: skip
_BOOKS = (
    *_SHORT.values(), "Ruth", "Ezra", "Esther", "Job", "Psalms", "Joel", "Amos", "Obadiah", "Jonah",
    "Nahum", "Zephaniah", "Haggai", "Acts", "Titus", "Philemon", "Jude", "Proverbs",
)  # fmt: skip
_FIRST = {"1": "first", "2": "second", "3": "third"}
# Words or names of people, without a full stop: "Sam 4:30".
_NEED_STOP = ("Dan", "Sam", "Tim", "Phil", "Col", "Gal", "Ex", "Num", "Rev", "Pet", "Jas")
_BOOK = rf"(?:{either(_SHORT)})\.|{either({*_SHORT, *_BOOKS} - set(_NEED_STOP))}"
_VERSE = re.compile(
    rf"(?<![\w.])(?:(?P<part>[1-3])\s)?(?P<book>{_BOOK})\s"
    r"(?P<chapter>\d{1,3}):(?P<verse>\d{1,3})[a-c]?"
    r"(?:[-–—](?P<last>\d{1,3})(?::(?P<end>\d{1,3}))?[a-c]?)?(?![\w:]|[.,]\d|\s?[ap]\.?m\b)"
)


def _say(match: re.Match[str]) -> str:
    """Return a verse; "verse" stands before small numbers and ranges, which sound like one else."""
    part, book, verse = match["part"], match["book"], match["verse"]
    first = f"{_FIRST[part]} " if part else ""
    chapter = f"{first}{_SHORT.get(book.rstrip('.'), book)} {_number(match['chapter'])}"
    if match["end"]:
        last = f"{_number(match['last'])} verse {_number(match['end'])}"
        return f"{chapter} verse {_number(verse)} to {last}"
    if match["last"]:
        return f"{chapter} verses {_number(verse)} to {_number(match['last'])}"
    is_small = len(verse) == 1 or verse[0] == "0"
    return f"{chapter}{' verse' if is_small else ''} {_number(verse)}"


def _number(written: str) -> str:
    return english_number(written.lstrip("0") or "0")


VERSES = (
    span("psalms", r"\bPs(s?)\.?(?=\s\d{1,3}(?![\d:.]))", r"Psalm\1"),
    span("verses", _VERSE, _say),
    span(
        "chapters",
        r"(?<![\w.])([1-3])\s(Sam|Kgs|Chr|Chron|Cor|Thess|Tim|Pet|Jn)\.\s(\d{1,3})(?![\w:]|\.\d)",
        lambda match: f"{_FIRST[match[1]]} {_SHORT[match[2]]} {_number(match[3])}",
    ),
)
