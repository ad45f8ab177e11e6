"""Numbers with a power of ten, and what they count: "3.0×10^8 m/s", "11.2 x 10^9/L"."""

from __future__ import annotations

from ..numbers import english_number
from ..spans import span
from .measures import DIVISOR, UNIT, say_units

SCIENTIFIC = (
    span(
        "powers of ten",
        r"(?<![\w.,])(?P<number>\d{1,12}(?:\.\d{1,12})?)\s?[×x*·]\s?10\^(?P<minus>[-−])?\+?"
        rf"(?P<power>\d{{1,3}})(?:\s?(?P<unit>{UNIT})(?![A-Za-z]))?"
        rf"(?:\s?/\s?(?P<divisor>{DIVISOR})(?![A-Za-z]))?(?!\w)",
        lambda match: (
            f"{english_number(match['number'])} times ten to the power of "
            f"{'minus ' if match['minus'] else ''}{english_number(match['power'])}"
            f"{say_units(match['unit'], match['divisor'])}"
        ),
    ),
)
