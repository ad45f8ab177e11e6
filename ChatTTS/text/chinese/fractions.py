"""Fractions and shares: 1/5, 3又2分之1, 20-30%, 4.5‰."""

from __future__ import annotations

import re

from ..number_words import chinese_number
from ..spans import span
from .numbers import AMOUNT, BETWEEN, WRITTEN, numbers_said

_WHOLES = {"%": "百", "‰": "千", "‱": "万"}
_PARTS_BEFORE = re.compile(r"[占约达为是=+*×÷(（^/<>≈-]\s?\Z")
_PARTS_BEHIND = re.compile(rf"[=+*×÷^a-z\"]|\s?(?:[的决拍]|是一?个|{AMOUNT}|英[寸尺里])")
_MINUS = r"(?P<sign>(?<![A-Za-z\d)%])[-−]|负)?"


def _share(match: re.Match[str]) -> str:
    """Return 百分之二十到百分之三十 for 20-30%; each number has its 百分之."""
    whole = f"{_WHOLES[match['mark']]}分之"
    sign = "负" if match["sign"] else ""
    low = f"{sign}{whole}{chinese_number(match['low'])}到" if match["low"] else ""
    number = "百" if match["number"] + match["mark"] == "100%" else chinese_number(match["number"])
    return f"{low}{'' if low else sign}{whole}{number}"


def _fraction(match: re.Match[str]) -> str:
    sign = "负" if match["sign"] else ""
    whole = f"{chinese_number(match['whole'])}又" if match["whole"] else ""
    if not sign and not whole and (day := _day(match)):
        return day
    above, below = chinese_number(match["above"]), chinese_number(match["below"])
    if match["above"] == match["below"] and len(match["below"]) < 3:  # halves, or a draw
        return f"{sign}{whole}{above}比{below}"
    return f"{sign}{whole}{below}分之{above}"


def _day(match: re.Match[str]) -> str | None:
    """Return the day of 6/28 and 10/8, or two numbers for 24/7; a fraction has ``None``.

    Fractions are less than one, and few have such a denominator. One that stands alone is one.
    """
    above, below, text = int(match["above"]), int(match["below"]), match.string
    is_part = above in (1, below) or (above < below and (below < 13 or above > 12 or below > 31))
    before = text[max(0, match.start() - 3) : match.start()]
    if (
        is_part
        or (match[0] == text and above < below)
        or _PARTS_BEFORE.search(before)
        or _PARTS_BEHIND.match(text, match.end())
    ):
        return None
    first, second = chinese_number(match["above"]), chinese_number(match["below"])
    return f"{first}月{second}日" if above <= 12 and below <= 31 else f"{first}，{second}"


def _spelled(match: re.Match[str]) -> str:
    sign = "负" if match["sign"] else ""
    whole = f"{chinese_number(match['whole'])}又" if match["whole"] else ""
    below = match["below"] if match["below"] in "百千万" else chinese_number(match["below"])
    return f"{sign}{whole}{below}分之{chinese_number(match['above'])}"


FRACTIONS = (
    span(
        "shares",
        rf"{_MINUS}(?<![A-Za-z\d.])(?:(?P<low>{WRITTEN})\s?{BETWEEN}\s?)?(?P<number>{WRITTEN})"
        r"\s?(?P<mark>[%‰‱])",
        _share,
    ),
    span(
        "fractions with a letter",
        r"(?<![A-Za-zα-ω\d./])(?:\d{1,3}/[a-z]|[a-zα-ω]/[1-9]\d{0,2})(?![A-Za-z\d/.])",
        lambda match: numbers_said("分之".join(reversed(match[0].split("/")))),
    ),
    span(
        "fractions in words",
        rf"{_MINUS}(?:(?P<whole>{WRITTEN})又)?(?P<below>[百千万]|\d{{1,20}})分之(?P<above>{WRITTEN})",
        _spelled,
    ),
    span(
        "fractions",
        rf"{_MINUS}(?:(?P<whole>\d{{1,9}})(?:又|\s))?(?<![A-Za-z\d/.])(?P<above>\d{{1,6}})\s?/\s?"
        r"(?P<below>[1-9]\d{0,5})(?![\d/.])",
        _fraction,
    ),
)
