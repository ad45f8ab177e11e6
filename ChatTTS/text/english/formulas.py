"""Formulas of mathematics and chemistry: "3.0×10^8", "1e-5", "x^2", "E = mc^2", "a != b", "H2O"."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..readers import either
from ..spans import span

_POWERS = {"2": "squared", "3": "cubed"}
_COMPARED = {
    ">=": "at least", "=>": "at least", "<=": "at most", "!=": "is not", "!==": "is not",
    "<>": "is not", "==": "equals", "===": "equals",
}  # fmt: skip
_ELEMENTS = (
    "Ag|Al|Ar|As|Au|Ba|Be|Br|Ca|Cl|Co|Cr|Cu|Fe|Ga|He|Hg|Li|Mg|Mn|Na|Ne|Ni|Pb|Pt|Ra|Rb|Se|Si|Sn|Sr|"
    "Ti|Xe|Zn|Zr|B|C|F|H|I|K|N|O|P|S|U|V|W"
)
_PART = rf"(?:{_ELEMENTS})(?:[2-9]|[1-9]\d)?"
_STATES = {"aq": "aqueous", "s": "solid", "l": "liquid", "g": "gas"}
_PIECE = re.compile(r"[A-Z][a-z]?|\d+")


def _ten(match: re.Match[str]) -> str:
    return f"{english_number(match[1])} times ten to the power of {_exponent(match[2])}"


def _power(match: re.Match[str]) -> str:
    return f" {_POWERS.get(match[1]) or f'to the power of {_exponent(match[1])}'}"


def _exponent(written: str) -> str:
    bare = written.lstrip("-−")
    said = english_number(bare) if bare[0].isdigit() else bare
    return said if bare == written else f"minus {said}"


def _chemical(match: re.Match[str]) -> str:
    """Return a formula letter by letter, with its numbers: "H2O" is "H two O"."""
    pieces = _PIECE.findall(match[0].partition("(")[0])
    said = " ".join(
        english_number(piece) if piece.isdigit() else " ".join(piece.upper()) for piece in pieces
    )
    return f"{said} {_STATES[match['state']]}" if match["state"] else said


# Before a unit: "3.0×10^8 m/s".
POWERS_OF_TEN = (
    span(
        "powers of ten",
        r"(?<![\w.,])(\d{1,12}(?:\.\d{1,12})?)\s?[×x*·]\s?10\^\+?([-−]?\d{1,3})(?!\w)",
        _ten,
    ),
)
FORMULAS = (
    span(
        "powers of ten in programs",
        r"(?<![\w.])(\d{1,20}(?:\.\d{1,20})?)(?:e(?=[+-]?\d)|E(?=[+-]\d)|(?<=\.\d)E(?=\d))\+?"
        r"(-?\d{1,3})\b",
        _ten,
    ),
    # Letters that are no unit: "F = ma", "gt^2".
    span(
        "products of a definition",
        r"(?<=[=\s])([a-z])([a-z])(?![A-Za-z])",
        r"\1 \2",
        behind=r"\b[A-Za-z]\s?=\s?\Z",
    ),
    span(
        "products",
        r"(?<![A-Za-z])(?!km|cm|mm|dm|nm|ft|mi|yd|in|um)([a-z])([a-z])(?=\^)",
        lambda match: f"{match[1]} {match[2]}".upper(),
        without_digits=True,
    ),
    span("quotients", r"(?<=\d)\s?/\s?(?=\d+\s*=)", " divided by "),
    span("products of numbers", r"(?<=\d)\s?[x×]\s?(?=\d+\s*=)", " times "),
    span("powers", r"\s?(?:\^|(?<=[\w)\]])\s?\*\*)\s?(-?\d+(?:\.\d+)?|[a-z]\b)", _power, True),
    span("powers of terms", r"(?<=[\w)\]])\s?\*\*\s?(?=[\w(-])", " to the power of "),
    span(
        "comparisons",
        rf"\s?(?<![=-])({either(_COMPARED)})(?![=>])\s?",
        lambda match: f" {_COMPARED[match[1]]} ",
    ),
    span("lines of equals signs", r"={4,}", " "),
    # Two elements or more with a number among them, a gas, or one of a few without a number. "B2B"
    # is no formula.
    span(
        "substances",
        rf"(?<![\w-])(?:(?!([A-Z])2\1\b)(?=[A-Za-z]*\d)(?:{_PART}){{2,12}}|[HNO]2|O3|Cl2|"
        rf"NaCl|KCl|HCl|NaOH|KOH|(?:{_PART}){{1,6}}(?=\((?:aq|s|l|g)\)))(?!\w|-(?![a-z]))"
        r"(?:\((?P<state>aq|s|l|g)\))?",
        _chemical,
        without_digits=True,
    ),
)
