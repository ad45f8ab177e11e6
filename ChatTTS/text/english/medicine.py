"""Doses and notes of medicine: "500 mg PO TID x 10 days", "q6h prn", "38w4d", "Pt. denies"."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..readers import either
from ..spans import span
from .measures import DIVISORS

_DOSED = {
    "po": "by mouth", "bid": "twice a day", "tid": "three times a day",
    "qid": "four times a day", "qd": "once a day", "qhs": "at bedtime",
    "qam": "every morning", "qpm": "every evening", "sl": "under the tongue",
}  # fmt: skip
_EVERY = r"h|hrs?|d|wk|mo"
_DOSE_BEFORE = re.compile(
    r"\d\s?(?:m?c?g|m?L|ml|IU|units?|tabs?|tablets?|caps?|capsules?|puffs?|drops?|%)\b"
    r"[^.!?\n]{0,24}\Z"
)


def _say_every(match: re.Match[str]) -> str:
    first, last, unit = match["first"], match["last"], DIVISORS[match["unit"]]
    if last:
        return f"every {english_number(first)} to {english_number(last)} {unit}s"
    return f"every {unit}" if first == "1" else f"every {english_number(first)} {unit}s"


MEDICINE = (
    span(
        "intervals of doses",
        rf"\b[qQ]\s?(?P<first>\d{{1,2}})(?:\s?[-–]\s?(?P<last>\d{{1,2}}))?\s?(?P<unit>{_EVERY})\b",
        _say_every,
    ),
    span("so many in a day or two", r"(?<=\d)/(?=(?:24|48|72)\s?h(?:rs?|ours)?\b)", " per "),
    span("as needed", r"\b(?:prn|PRN)\b", "as needed"),
    span(
        "ways and times of doses",
        rf"(?<=\s)(?:{either(_DOSED)}|{either(map(str.upper, _DOSED))})\b",
        lambda match: _DOSED[match[0].lower()],
        behind=_DOSE_BEFORE,
    ),
    span(
        "the patient",
        r"(?<!\d )(?<!\bone )\b[Pp]t\.?(?=\s(?:is|was|has|had|denies|reports|states|presents|"
        r"complains|c/o|will|may|can|seen|admitted|discharged)\b)",
        "patient",
        without_digits=True,
    ),
)
