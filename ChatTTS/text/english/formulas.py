"""Read the formulas of mathematics and chemistry in English."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..readers import Rule, rewrite, rule

_POWERS = {"2": " squared", "3": " cubed"}
_POWER = re.compile(r"\s?\^\s?(?P<exponent>-?\d+(?:\.\d+)?|[a-z]\b)")
_SIGNS: list[Rule] = [
    rule(r"(?<=\d)\s?/\s?(?=\d+\s*=)", " divided by "),
    rule(r"(?<=[\w)\]])\s?\*\*\s?(?=[\w(-])", "^"),
    rule(r"==+", "="),
    rule(r"\s?(?:>=|=>)\s?", " ≥ "),
    rule(r"\s?<=\s?", " ≤ "),
    rule(r"\s?(?:!=|<>)\s?", " ≠ "),
    rule(r"(?<=\d)\s?[x×]\s?(?=\d+\s*=)", " times "),
    # Two letters that are multiplied: E=mc² and F = ma.
    rule(r"(?<=\b[A-Za-z])(\s?=\s?)([a-z])([a-z])(?![A-Za-z])", r"\1\2 \3"),
    # gt² and mv²: capitals are no units ("½gt²" has no grams).
    rule(
        r"(?<![A-Za-z])(?!km|cm|mm|dm|nm|ft|mi|yd|in|um)([a-z])([a-z])(?=\^)",
        lambda match: f" {match[1].upper()} {match[2].upper()}",
    ),
    # 1e-5 and 2.5E6
    rule(
        r"(?<![\w.])(\d+(?:\.\d+)?)(?:e(?=[+-]?\d)|E(?=[+-]\d)|(?<=\.\d)E(?=\d))\+?(-?\d{1,3})\b",
        lambda match: f"{match[1]} times ten to the power of {match[2].replace('-', 'minus ')}",
    ),
]

_ELEMENTS = (
    "Ag|Al|Ar|As|Au|Ba|Be|Br|Ca|Cl|Co|Cr|Cu|Fe|Ga|He|Hg|Li|Mg|Mn|Na|Ne|Ni|Pb|Pt|Ra|Rb|Se|Si|Sn|Sr|"
    "Ti|Xe|Zn|Zr|B|C|F|H|I|K|N|O|P|S|U|V|W"
)
_PART = rf"(?:{_ELEMENTS})(?:[2-9]|[1-9]\d)?"
# Two elements or more with a number among them, a gas, or one of a few without a number. "B2B" is
# no formula.
_FORMULA = re.compile(
    rf"(?<![\w-])(?:(?!([A-Z])2\1\b)(?=[A-Za-z]*\d)(?:{_PART}){{2,12}}|[HNO]2|O3|Cl2|"
    rf"NaCl|KCl|HCl|NaOH|KOH|(?:{_PART}){{1,6}}(?=\((?:aq|s|l|g)\)))(?!\w|-(?![a-z]))"
    r"(?:\((?P<state>aq|s|l|g)\))?"
)
_STATES = {"aq": "aqueous", "s": "solid", "l": "liquid", "g": "gas"}
_PIECE = re.compile(r"[A-Z][a-z]?|\d+")


def read_formulas(text: str) -> str:
    """Return ``text`` with powers, comparisons and chemical formulas as words."""
    text = _POWER.sub(_power, rewrite(text, _SIGNS))
    return _FORMULA.sub(_formula, text)


def _power(match: re.Match[str]) -> str:
    exponent = match["exponent"]
    if exponent in _POWERS:
        return _POWERS[exponent]
    minus = "minus " if exponent.startswith("-") else ""
    bare = exponent.removeprefix("-")
    return f" to the power of {minus}{english_number(bare) if bare[0].isdigit() else bare}"


def _formula(match: re.Match[str]) -> str:
    """Return a formula letter by letter, with its numbers: "H2O" is "H two O"."""
    pieces = _PIECE.findall(match[0].partition("(")[0])
    said = " ".join(
        english_number(piece) if piece.isdigit() else " ".join(piece.upper()) for piece in pieces
    )
    return f"{said} {_STATES[match['state']]}" if match["state"] else said
