"""Read digits and symbols in Chinese.

Each class of notations finds its spans in the text as it was written, and says them at once. All
other digits are read as plain numbers, so that none is left.
"""

from __future__ import annotations

import re

from ..readers import Reader, read_all
from ..signs import name_greek
from ..spans import read_spans
from .calendar import DATES
from .calls import CALLS
from .clock import TIMES
from .codes import CODES, RELEASES
from .fractions import FRACTIONS
from .measures import MEASURES
from .money import MONEY
from .names import MIXED, NAMES
from .numbers import LONG_NUMBERS, NUMBERS, THOUSANDS
from .programs import PATHS, PROGRAMS
from .ranges import RANGES
from .ratios import RATIOS, RECORDS
from .references import REFERENCES
from .signs import SIGNS, SYMBOLS
from .versions import VERSIONS
from .web import ADDRESSES

# By rank: where two classes claim the same characters, the first one has them.
_SPANS = (
    *LONG_NUMBERS,
    *PATHS,
    *ADDRESSES,
    *REFERENCES,
    *CODES,
    *CALLS,
    *NAMES,
    *VERSIONS,
    *RECORDS,
    *DATES,
    *RATIOS,
    *TIMES,
    *RELEASES,
    *MONEY,
    *MEASURES,
    *MIXED,
    *FRACTIONS,
    *THOUSANDS,
    *PROGRAMS,
    *RANGES,
    *SIGNS,
    *NUMBERS,
    *SYMBOLS,
)
# Two numbers that would be one: 周三19:30, 80一针.
_NEXT = "[二三四五六七八九十]|一(?![些样般直定起共致旦切])"
_TWO_NUMBERS = (
    re.compile("[二三四五六七八九]十"),
    re.compile(f"[一二三四五六七八九十百千万亿](?:{_NEXT})"),
)
_READERS = (
    Reader("spans", lambda text: read_spans(text, _SPANS, "", _TWO_NUMBERS)),
    Reader("Greek letters", lambda text: name_greek(text, "zh")),
)


def read_chinese(text: str) -> str:
    """Return ``text`` with numbers and symbols as Chinese words, without ASCII digits."""
    return read_all(text, _READERS)
