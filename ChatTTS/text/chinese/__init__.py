"""Read digits and symbols in Chinese.

Each class of notations finds its spans in the text as it was written, and says them at once. All
other digits are read as plain numbers, so that none is left.
"""

from __future__ import annotations

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
from .ranges import RANGES
from .ratios import RATIOS, RECORDS
from .references import REFERENCES
from .signs import SIGNS, SYMBOLS
from .versions import VERSIONS
from .web import ADDRESSES

# By rank: where two classes claim the same characters, the first one has them.
_SPANS = (
    *LONG_NUMBERS,
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
    *RANGES,
    *SIGNS,
    *NUMBERS,
    *SYMBOLS,
)
_READERS = (
    Reader("spans", lambda text: read_spans(text, _SPANS, "")),
    Reader("Greek letters", lambda text: name_greek(text, "zh")),
)


def read_chinese(text: str) -> str:
    """Return ``text`` with numbers and symbols as Chinese words, without ASCII digits."""
    return read_all(text, _READERS)
