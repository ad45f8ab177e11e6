"""Doses and notes of medicine: "500 mg PO TID x 10 days", "q6h prn", "38w4d", "Pt. denies"."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..readers import either
from ..spans import span
from .clock import counted

_DOSED = {
    "po": "by mouth", "bid": "twice a day", "tid": "three times a day",
    "qid": "four times a day", "qd": "once a day", "qhs": "at bedtime",
    "qam": "every morning", "qpm": "every evening",
    "sl": "under the tongue",
}  # fmt: skip
_EVERY = {"h": "hour", "hr": "hour", "hrs": "hour", "d": "day", "wk": "week", "mo": "month"}
_DOSE_BEFORE = re.compile(
    r"\d\s?(?:m?c?g|m?L|ml|IU|units?|tabs?|tablets?|caps?|capsules?|puffs?|drops?|%)\b"
    r"[^.!?\n]{0,24}\Z"
)
_LOOK_BACK = 40  # characters


def _say_dosed(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()]
    return _DOSED[match[0].lower()] if _DOSE_BEFORE.search(before) else None


def _say_every(match: re.Match[str]) -> str:
    first, last, unit = match["first"], match["last"], _EVERY[match["unit"]]
    if last:
        return f"every {english_number(first)} to {english_number(last)} {unit}s"
    return f"every {unit}" if first == "1" else f"every {english_number(first)} {unit}s"


MEDICINE = (
    span(
        "intervals of doses",
        r"\b[qQ]\s?(?P<first>\d{1,2})(?:\s?[-–]\s?(?P<last>\d{1,2}))?\s?"
        rf"(?P<unit>{either(_EVERY)})\b",
        _say_every,
    ),
    span("as needed", r"\b(?:prn|PRN)\b", "as needed"),
    span(
        "ways and times of doses",
        rf"(?<=\s)(?:{either(_DOSED)}|{either(map(str.upper, _DOSED))})\b",
        _say_dosed,
    ),
    span(
        "weeks and days",
        r"(?<![\w.])(\d{1,2})w\s?([0-6])d\b",
        lambda match: f"{counted(int(match[1]), 'week')} {counted(int(match[2]), 'day')}",
    ),
    span(
        "the patient",
        r"(?<!\d )(?<!\bone )\b[Pp]t\.?(?=\s(?:is|was|has|had|denies|reports|states|presents|"
        r"complains|c/o|will|may|can|seen|admitted|discharged)\b)",
        "patient",
        without_digits=True,
    ),
)
