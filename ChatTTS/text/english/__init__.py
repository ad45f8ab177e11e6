"""Read digits and symbols in English.

Each reader replaces only what it recognizes with certainty. All other digits are read as plain
numbers, so that none is left.
"""

from __future__ import annotations

from ..numbers import english_number, read_long_runs
from ..readers import Reader, read_all
from ..roman import read_roman
from ..signs import name_emoji, name_greek
from ..spans import read_spans
from .abbreviations import INNER_STOPS, expand_abbreviations
from .amounts import join_foreign_groups, part_from_letters, read_numbers, read_scales
from .calendar import NUMERIC_DATES, read_dates, read_decades, read_years
from .clock import mark_halves, read_times
from .codes import read_codes
from .command_lines import COMMAND_LINES, EXPRESSIONS
from .comparisons import COMPARISONS
from .coordinates import COORDINATES
from .formulas import read_formulas
from .fractions import FRACTIONS
from .hours import HOURS
from .labels import LABELS
from .letter_signs import LETTER_SIGNS
from .measures import read_degrees, read_measures, read_percentages
from .medicine import MEDICINE
from .mixed_numbers import MIXED_NUMBERS
from .money import MONEY
from .multiples import MULTIPLES
from .networks import NETWORKS
from .phones import PHONES
from .places import PLACES
from .plurals import PLURALS
from .ranges import read_multiples, read_ordinals, read_ranges, read_versions
from .ratios import RATIOS
from .references import REFERENCES
from .scientific import SCIENTIFIC
from .scores import SCORES
from .slashed import SLASHED
from .symbols import read_signs_at_numbers, read_symbols, spell_initials, unquote_numbers
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
    *COMMAND_LINES,
    *NETWORKS,
    *MONEY,
    *MEDICINE,
    *SLASHED,
    *REFERENCES,
    *PLACES,
    *SCIENTIFIC,
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
    *FRACTIONS,
    *INNER_STOPS,
)

# The order counts: a date must be read before a range, a range before a number.
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
    Reader("halves of the day", mark_halves, needs_digits=True),
    Reader("foreign numbers", join_foreign_groups, needs_digits=True),
    Reader("abbreviations", expand_abbreviations),
    Reader("codes", read_codes),
    Reader("formulas", read_formulas),
    Reader("scales", read_scales, needs_digits=True),
    Reader("ranges", read_ranges),
    Reader("dates", read_dates, needs_digits=True),
    Reader("times", read_times, needs_digits=True),
    Reader("versions", read_versions, needs_digits=True),
    Reader("percentages", read_percentages, needs_digits=True),
    Reader("degrees", read_degrees),
    Reader("decades", read_decades, needs_digits=True),
    Reader("ordinals", read_ordinals, needs_digits=True),
    Reader("multiples", read_multiples, needs_digits=True),
    Reader("measures", read_measures),
    Reader("Greek letters", lambda text: name_greek(text, "en")),
    Reader("signs at numbers", read_signs_at_numbers),
    Reader("roman numerals", read_roman),
    Reader("letters beside digits", part_from_letters, needs_digits=True),
    Reader("initials", spell_initials),
    Reader("years", read_years, needs_digits=True),
    Reader("numbers", read_numbers, needs_digits=True),
    Reader("symbols", read_symbols),
)


def read_english(text: str) -> str:
    """Return ``text`` with numbers, abbreviations and symbols as words, without ASCII digits."""
    return read_all(text, _READERS)
