"""Numbers as words, in English and Chinese.

The functions take digits as text, so leading zeros and decimals are kept as written. The readers of
``english/`` and ``chinese/`` decide which notation is read how.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Longer than any number or code; read digit by digit before all other rules. With a point before
# it, it is the rest of a decimal number.
_LONG_RUN = re.compile(r"(?:(?<![\d.])(\d{1,19})\.)?(\d{20,})")

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)  # fmt: skip
_TENS = (
    "zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
)  # fmt: skip
_THOUSANDS = ("", "thousand", "million", "billion", "trillion")
NUMBER_WORD = rf"(?i:\b(?:{'|'.join((*_ONES, *_TENS[2:], 'hundred', *_THOUSANDS[1:]))})\b)"
"""A word of a number in English, as a pattern."""

_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip

_HAN = "零一二三四五六七八九"
_HAN_PLACES = ("", "十", "百", "千")
_HAN_MYRIADS = ("", "万", "亿", "兆")


def english_number(written: str) -> str:
    """Return a number in words.

    "1,234.50" is "one thousand two hundred thirty four point five zero".

    Numbers with a leading zero ("007") and those beyond trillions are read digit by digit.
    """
    whole, _, decimals = written.replace(",", "").partition(".")
    if (len(whole) > 1 and whole[0] == "0") or len(whole) > 3 * len(_THOUSANDS):
        words = english_digits(whole)
    else:
        words = _english_cardinal(int(whole or "0"))
    return f"{words} point {english_digits(decimals)}" if decimals else words


def english_digits(digits: str) -> str:
    """Return digits one by one: "105" is "one zero five"; other characters are skipped."""
    return " ".join(_ONES[int(digit)] for digit in digits if digit in "0123456789")


def english_ordinal(written: str) -> str:
    """Return an ordinal in words: "21" and "21st" are "twenty first"."""
    *before, last = english_number("".join(filter(str.isdigit, written)) or "0").split(" ")
    if last in _ORDINALS:
        last = _ORDINALS[last]
    else:
        last = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return " ".join([*before, last])


def english_year(written: str) -> str:
    """Return a year of four digits in words: 1905 is "nineteen o five"."""
    century, rest = written[:2], written[2:]
    if (century[1] == "0" and rest[0] == "0") or written == "2000":
        return english_number(written)  # two thousand five
    if rest == "00":
        return f"{english_number(century)} hundred"
    o = "o " if rest[0] == "0" else ""
    return f"{english_number(century)} {o}{english_number(rest.lstrip('0'))}"


def chinese_number(written: str) -> str:
    """Return a number in words: "1,234.50" is "一千二百三十四点五零".

    Numbers with a leading zero and very long ones are read digit by digit.
    """
    whole, _, decimals = written.replace(",", "").partition(".")
    if (len(whole) > 1 and whole[0] == "0") or len(whole) > 4 * len(_HAN_MYRIADS):
        words = chinese_digits(whole)
    else:
        words = _chinese_cardinal(int(whole or "0"))
    return f"{words}点{chinese_digits(decimals)}" if decimals else words


def chinese_digits(digits: str) -> str:
    """Return digits one by one: "105" is "一零五"; other characters are skipped."""
    return "".join(_HAN[int(digit)] for digit in digits if digit in "0123456789")


def read_long_runs(text: str, number: Callable[[str], str], point: str) -> str:
    """Return ``text`` with runs of at least 20 digits digit by digit.

    Args:
        number: returns the words of a number, and digits one by one where there are many.
        point: the word for the point of a decimal number.
    """

    def said(match: re.Match[str]) -> str:
        digits = number(match[2])
        return digits if match[1] is None else f"{number(match[1])}{point}{digits}"

    return _LONG_RUN.sub(said, text)


def _english_cardinal(value: int) -> str:
    if value == 0:
        return _ONES[0]
    words: list[str] = []
    for name in _THOUSANDS:
        value, group = divmod(value, 1000)
        if group:
            words = [*_below_thousand(group), *([name] if name else []), *words]
    return " ".join(words)


def _below_thousand(value: int) -> list[str]:
    hundreds, rest = divmod(value, 100)
    words = [_ONES[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        words.append(_TENS[rest // 10])
        rest %= 10
    return [*words, _ONES[rest]] if rest else words


def _chinese_cardinal(value: int) -> str:
    if value == 0:
        return _HAN[0]
    words, skipped = "", False
    for myriad in reversed(range(len(_HAN_MYRIADS))):
        group = value // 10_000**myriad % 10_000
        if group:
            gap = "零" if words and (skipped or group < 1000) else ""
            said = _below_myriad(group)
            if gap and myriad and 10 <= group < 20:
                said = said.removeprefix("一")  # 零十万, as in 十万
            words += gap + said + _HAN_MYRIADS[myriad]
        skipped = not group
    return words.removeprefix("一") if words.startswith("一十") else words


def _below_myriad(value: int) -> str:
    words = ""
    for place in (3, 2, 1, 0):
        digit = value // 10**place % 10
        if digit:
            words += _HAN[digit] + _HAN_PLACES[place]
        elif words and value % 10**place and not words.endswith("零"):
            words += "零"
    return words
