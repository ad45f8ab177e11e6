"""Read digits and symbols in Chinese.

Each reader replaces only what it recognizes with certainty. All other digits are read as plain
numbers, so that none is left.
"""

from __future__ import annotations

import re

from ..numbers import chinese_number, read_long_runs
from ..readers import Reader, read_all
from ..roman import read_chinese_roman
from ..signs import name_greek
from ..spans import read_spans as read_classes
from .calendar import read_dates, read_times
from .codes import read_codes
from .measures import read_fractions, read_measures, read_money
from .numbers import read_numbers
from .signs import read_dashes, read_signs, read_spans, read_symbols
from .versions import VERSIONS
from .web import read_addresses

# By rank: where two classes claim the same characters, the first one has them.
_SPANS = VERSIONS

_COMMAS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_POINT_FIRST = re.compile(r"(?<![\dA-Za-z.])\.(?=\d)")
_THOUSANDS = re.compile(
    r"(?<![A-Za-z\d.])(\d{1,4})(?:\.(\d{1,3}))?k(?![A-Za-z\d]|视频|画质|分辨率|屏|电视|显示器|高清|超清|蓝光)"
)
# Kinds of trade, such as B2B.
_TRADE = re.compile(r"\b(?=B2B|B2C|B2G|C2C|C2B|D2C|O2O|P2P)([A-Z])2([A-Z])\b", re.ASCII)


def _thousands(match: re.Match[str]) -> str:
    """Return 1.5k as 1500."""
    return match[1] + (match[2] or "").ljust(3, "0")


# The order counts: a date must be read before a fraction, a fraction before a number.
_READERS = (
    Reader("very long numbers", lambda text: read_long_runs(text, chinese_number, "点")),
    Reader("addresses", read_addresses),
    Reader("classes", lambda text: read_classes(text, _SPANS, "")),
    Reader("groups of digits", lambda text: _COMMAS.sub("", text)),
    Reader("thousands", lambda text: _THOUSANDS.sub(_thousands, text)),
    Reader("decimals without a zero", lambda text: _POINT_FIRST.sub("0.", text)),
    Reader("kinds of trade", lambda text: _TRADE.sub(r"\1 to \2", text)),
    Reader("codes", read_codes),
    Reader("Greek letters", lambda text: name_greek(text, "zh")),
    Reader("roman numerals", read_chinese_roman),
    Reader("spans", read_spans),
    Reader("dates", read_dates),
    Reader("times", read_times),
    Reader("dashes", read_dashes),
    Reader("money", read_money),
    Reader("measures", read_measures),
    Reader("fractions", read_fractions),
    Reader("signs", read_signs),
    Reader("numbers", read_numbers),
    Reader("symbols", read_symbols),
)


def read_chinese(text: str) -> str:
    """Return ``text`` with numbers and symbols as Chinese words, without ASCII digits."""
    return read_all(text, _READERS)
