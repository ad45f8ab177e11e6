"""Read digits and symbols in English.

Each reader replaces only what it recognizes with certainty. All other digits are read as plain
numbers, so that none is left.
"""

from __future__ import annotations

from ..number_words import english_number, read_long_runs
from ..readers import Reader, read_all
from ..roman import ROMAN
from ..signs import name_emoji, name_greek
from ..spans import read_spans
from .abbreviations import ABBREVIATIONS
from .amounts import AMOUNTS, NUMBERS
from .calendar import DATES, DAYS_AND_MONTHS, DECADES, NUMERIC_DATES, YEARS
from .chess import CHESS
from .clock import CLOCK, DURATIONS
from .codes import CODES
from .command_lines import COMMAND_LINES, EXPRESSIONS
from .comparisons import COMPARISONS
from .coordinates import COORDINATES
from .formulas import FORMULAS, POWERS_OF_TEN
from .fractions import FRACTIONS
from .hours import HOURS
from .labels import LABELS
from .letter_signs import LETTER_SIGNS
from .measures import MEASURES
from .medicine import MEDICINE
from .mixed_numbers import MIXED_NUMBERS
from .money import MONEY
from .multiples import MULTIPLES
from .networks import NETWORKS
from .phones import PHONES
from .places import PLACES
from .plurals import PLURALS
from .ranges import RANGES
from .ratios import RATIOS
from .references import REFERENCES
from .scores import SCORES
from .slashed import SLASHED
from .streets import STREETS
from .symbols import INITIALS, SIGNS, SYMBOLS, unquote_numbers
from .temperatures import TEMPERATURES
from .terms import TERMS
from .timestamps import TIMESTAMPS
from .verses import VERSES
from .versions import VERSIONS
from .web import read_addresses

# By rank: where two classes claim the same characters, the first one has them.
_SPANS = (
    *TIMESTAMPS,
    *NUMERIC_DATES,
    *VERSES,
    *HOURS,
    *CHESS,
    *COMMAND_LINES,
    *MONEY,
    *MEDICINE,
    *DURATIONS,
    *SLASHED,
    *REFERENCES,
    *NETWORKS,
    *PLACES,
    *POWERS_OF_TEN,
    *EXPRESSIONS,
    *LABELS,
    *MULTIPLES,
    *PLURALS,
    *TERMS,
    *COORDINATES,
    *VERSIONS,
    *MIXED_NUMBERS,
    *SCORES,
    *RATIOS,
    *TEMPERATURES,
    *LETTER_SIGNS,
    *COMPARISONS,
    *PHONES,
    *STREETS,
    *FRACTIONS,
    *CODES,
    *DATES,
    *DECADES,
    *AMOUNTS,
    *MEASURES,
    *CLOCK,
    *RANGES,
    *DAYS_AND_MONTHS,
    *ABBREVIATIONS,
    *FORMULAS,
)
# What is of no class, and the numbers in the words of a span: "one hundred over 60".
_PLAIN = (*SIGNS, *ROMAN, *INITIALS, *YEARS, *NUMBERS, *SYMBOLS)

_READERS = (
    Reader(
        "very long numbers",
        lambda text: read_long_runs(text, english_number, " point "),
        needs_digits=True,
    ),
    Reader("emoji", name_emoji),
    Reader("addresses", read_addresses),
    Reader("quotes at numbers", unquote_numbers, needs_digits=True),
    Reader("spans", lambda text: read_spans(text, _SPANS, " ")),
    Reader("Greek letters", lambda text: name_greek(text, "en")),
    Reader("letters, numbers and signs", lambda text: read_spans(text, _PLAIN, " ")),
)


def read_english(text: str) -> str:
    """Return ``text`` with numbers, abbreviations and symbols as words, without ASCII digits."""
    return read_all(text, _READERS)
