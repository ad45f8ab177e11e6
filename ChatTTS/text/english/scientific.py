"""Numbers with a power of ten: "3.0×10^8", "11.2 x 10^9"."""

from __future__ import annotations

from ..numbers import english_number
from ..spans import span

SCIENTIFIC = (
    span(
        "powers of ten",
        r"(?<![\w.,])(?P<number>\d{1,12}(?:\.\d{1,12})?)\s?[×x*·]\s?10\^(?P<minus>[-−])?\+?"
        r"(?P<power>\d{1,3})(?!\w)",
        lambda match: (
            f"{english_number(match['number'])} times ten to the power of "
            f"{'minus ' if match['minus'] else ''}{english_number(match['power'])}"
        ),
    ),
)
