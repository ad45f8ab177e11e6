"""Read digits and symbols in Chinese.

Each class of notations finds its spans in the text as it was written, and says them at once. All
other digits are read as plain numbers, so that none is left.
"""

from __future__ import annotations

import re

from ..numbers import chinese_number, read_long_runs
from ..readers import Reader, read_all
from ..roman import read_chinese_roman
from ..signs import name_greek
from ..spans import read_spans
from .calendar import DATES
from .calls import CALLS
from .clock import TIMES
from .codes import CODES, RELEASES
from .fractions import FRACTIONS
from .measures import MEASURES
from .money import MONEY
from .names import NAMES
from .numbers import THOUSANDS, read_numbers
from .ranges import RANGES
from .ratios import RATIOS, RECORDS
from .references import REFERENCES
from .signs import SIGNS, read_symbols
from .versions import VERSIONS
from .web import read_addresses

# By rank: where two classes claim the same characters, the first one has them.
_SPANS = (
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
    *FRACTIONS,
    *THOUSANDS,
    *RANGES,
    *SIGNS,
)

_COMMAS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_POINT_FIRST = re.compile(r"(?<![\dA-Za-z.])\.(?=\d)")
_LETTER_BEFORE = re.compile(r"(?<=[A-Za-z])(?=\d)")

_READERS = (
    Reader("very long numbers", lambda text: read_long_runs(text, chinese_number, "点")),
    Reader("addresses", read_addresses),
    Reader("decimals without a zero", lambda text: _POINT_FIRST.sub("0.", text)),
    Reader("spans", lambda text: read_spans(text, _SPANS, "")),
    Reader("groups of digits", lambda text: _COMMAS.sub("", text)),
    Reader("Greek letters", lambda text: name_greek(text, "zh")),
    Reader("roman numerals", read_chinese_roman),
    Reader("letters before digits", lambda text: _LETTER_BEFORE.sub(" ", text)),
    Reader("numbers", read_numbers),
    Reader("symbols", read_symbols),
)


def read_chinese(text: str) -> str:
    """Return ``text`` with numbers and symbols as Chinese words, without ASCII digits."""
    return read_all(text, _READERS)
