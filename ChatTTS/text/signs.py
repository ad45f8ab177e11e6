"""Read emoji, Greek letters and the signs of formulas."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Superscripts become "^2" in formulas. Those of units ("km²") become plain digits, and so do those
# of words, which are notes.
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ", "0123456789-n")
# Two letters are a product ("gt²"), and no unit, where they have no vowel.
_PRODUCT = r"(?<=(?<![A-Za-z])(?:[b-df-hj-np-tv-z]{2}|a[txyz]))(?<!km|cm|mm|dm|nm|pm|ft|yd)"
_POWER = re.compile(
    rf"(?:(?<=[\d)])|(?<=(?<![A-Za-z])[A-Za-ln-rt-z])|(?<==[a-z]{{2}})|(?<=[\u0391-\u03c9])|{_PRODUCT})[⁰¹²³⁴-⁹⁻ⁿ]+"
)
# "10^{-12}" of TeX, and the exponent of a unit whose text has lost its place: "cm−2".
_BRACED = re.compile(r"\^\{([-−]?\w{1,8})\}")
_LOWERED = re.compile(r"(?<=[A-Za-z])−(?=[1-4](?!\d))")
# Answers such as "A.①③" are numbers one after the other.
_CIRCLED = re.compile("(?<=[A-Z])[.．](?=[①-⑳])|(?<=[①-⑳])(?=[①-⑳])")
_BASE = re.compile(r"[₀-₉](?=[\d⁰¹²³⁴-⁹])", re.ASCII)

EMOJI = (
    r"\u2600-\u266c\u2670-\u26ff\u2705-\u270d\u2728\u274c\u2753-\u2764\u2b50\u2b55"
    r"\U0001f300-\U0001faff"
)
_ONE_EMOJI = rf"[{EMOJI}][\ufe0f\u20e3\U0001f3fb-\U0001f3ff]*"
# One with its variations, a flag, or several that are joined to one picture; repetitions count
# once.
_PICTURE = re.compile(
    rf"((?:{_ONE_EMOJI})(?:\u200d(?:{_ONE_EMOJI}|[♀♂]\ufe0f?))*|[\U0001f1e6-\U0001f1ff]{{2}})"
    r"(?:\s*\1)*\s*"
)
_COMMON_NAMES = {"❤": "heart", "⭐": "star", "☕": "coffee", "♥": "heart", "☎": "telephone"}
_NOT_SAID = re.compile(r"^(?:heavy|black|white)(?: black| white)? | (?:sign|symbol)$")

_GREEK = re.compile(r"(?<![\u0370-\u03ff])[\u0391-\u03c9](?![\u0370-\u03ff])|[∆µ]")
_CHINESE_GREEK = {
    "α": "阿尔法", "β": "贝塔", "γ": "伽马", "δ": "德尔塔", "ε": "艾普西隆", "θ": "西塔",
    "λ": "兰姆达", "μ": "缪", "π": "派", "ρ": "柔", "σ": "西格马", "φ": "斐", "ω": "欧米伽",
    "ζ": "泽塔", "η": "伊塔", "κ": "卡帕", "ν": "纽", "ξ": "克西", "τ": "陶", "χ": "希",
    "ψ": "普西",
}  # fmt: skip


def mark_powers(text: str) -> str:
    """Return ``text`` with the superscripts of formulas as in "x^2", and "₂8" with a space."""
    text = _CIRCLED.sub(lambda match: " " if match[0] else ", ", text)
    text = _BASE.sub(r"\g<0> ", _LOWERED.sub("^-", _BRACED.sub(r"^\1", text)))
    return _POWER.sub(lambda match: "^" + match[0].translate(_SUPERSCRIPTS), text)


def name_emoji(text: str) -> str:
    """Return ``text`` with emoji by their English names in Unicode, between commas.

    Emoji without a word beside them stay, and are left out later: alone they are a reaction, which
    is not read.
    """
    if not any(character.isalnum() for character in text):
        return text

    def named(match: re.Match[str]) -> str:
        name = _picture_name(match[1])
        return f", {name}, " if name else " "

    return _PICTURE.sub(named, text)


def name_greek(text: str, language: str) -> str:
    """Return ``text`` with single Greek letters by their names; Greek words stay."""

    def named(match: re.Match[str]) -> str:
        letter = {"∆": "δ", "µ": "μ"}.get(match[0], match[0].lower())
        if language == "zh":
            return _CHINESE_GREEK.get(letter, match[0])
        # "GREEK SMALL LETTER PI"
        return f" {unicodedata.name(letter, '').rpartition(' ')[2].lower()} "

    return _GREEK.sub(named, text)


@lru_cache(maxsize=512)
def _picture_name(picture: str) -> str:
    """Return the name of a picture; of one that is joined from several, that of the first."""
    first = picture[0]
    if "\U0001f1e6" <= first <= "\U0001f1ff":
        letters = (unicodedata.name(part).rpartition(" ")[2] for part in picture)
        return "flag " + " ".join(letters)
    if first in _COMMON_NAMES:
        return _COMMON_NAMES[first]
    name = unicodedata.name(first, "").lower().replace("-", " ")
    return _NOT_SAID.sub("", name)
