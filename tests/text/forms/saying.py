"""Numbers in words, from values: the yardstick of the forms, apart from the package's own words.

Where a value is said in several ways, the words are a regular expression of them.
"""

from __future__ import annotations

import re

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)  # fmt: skip
_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_FIRST = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
_HAN = "零一二三四五六七八九"

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


def cardinal(value: int) -> str:
    """Return a number below a million million as English says it."""
    if value < 20:
        return _SMALL[value]
    if value < 100:
        return _TENS[value // 10] + (f" {_SMALL[value % 10]}" if value % 10 else "")
    for size, name in (
        (10**9, "billion"),
        (10**6, "million"),
        (1000, "thousand"),
        (100, "hundred"),
    ):
        if value >= size:
            rest = f" {cardinal(value % size)}" if value % size else ""
            return f"{cardinal(value // size)} {name}{rest}"
    raise AssertionError(value)


def ordinal(value: int) -> str:
    """Return "twenty first" for 21."""
    *before, last = cardinal(value).split(" ")
    last = _FIRST.get(last) or (f"{last[:-1]}ieth" if last[-1] == "y" else f"{last}th")
    return " ".join([*before, last])


def plural(words: str) -> str:
    """Return the words of several: "fifteens", "thirties", "sixes"."""
    if words.endswith("y"):
        return f"{words[:-1]}ies"
    return f"{words}es" if words.endswith("x") else f"{words}s"


def digits(written: str) -> str:
    """Return the digits one by one, in English."""
    return " ".join(_SMALL[int(digit)] for digit in written if digit.isdigit())


def decimal(written: str) -> str:
    """Return "three point one four" for 3.14."""
    whole, _, rest = written.partition(".")
    return cardinal(int(whole)) + (f" point {digits(rest)}" if rest else "")


def year(value: int) -> str:
    """Return "nineteen ninety four", "two thousand five"."""
    first, rest = divmod(value, 100)
    if not rest:
        return cardinal(value) if first % 10 == 0 else f"{cardinal(first)} hundred"
    if rest < 10:
        return cardinal(value) if first == 20 else f"{cardinal(first)} o {cardinal(rest)}"
    return f"{cardinal(first)} {cardinal(rest)}"


def pairs(value: int) -> str:
    """Return the ways in which a number of two to four digits names something."""
    first, rest = divmod(value, 100)
    ways = [cardinal(value), digits(str(value))]
    if first and not rest:
        ways.append(f"{cardinal(first)} hundred")
    elif first:
        o = "(o|zero) " if rest < 10 else ""
        ways.append(f"{cardinal(first)} {o}{cardinal(rest)}")
    return f"({'|'.join(ways)})"


def han_digits(written: str) -> str:
    """Return the digits one by one, in Mandarin."""
    return "".join(_HAN[int(digit)] for digit in written if digit.isdigit())


def han_call(written: str) -> str:
    """Return the digits as of a telephone number, with 幺 or 一 for each 1."""
    return "".join("(幺|一)" if digit == "1" else _HAN[int(digit)] for digit in written)


def han(value: int) -> str:
    """Return the ways to say a number below 10 ** 12 in Mandarin, such as 两百 and 二百."""
    return re.sub("二(?=[百千万亿])", "(二|两)", _han(value))


def _han(value: int) -> str:
    if value >= 10**4:
        size, name = (10**8, "亿") if value >= 10**8 else (10**4, "万")
        high, low = divmod(value, size)
        gap = "零" if low and low < size // 10 else ""
        return _han(high) + name + (gap + _inner(low) if low else "")
    words = _inner(value) if value else "零"
    return words[1:] if words.startswith("一十") else words


def han_decimal(written: str) -> str:
    """Return 三点一四 for 3.14."""
    whole, _, rest = written.partition(".")
    return han(int(whole)) + (f"点{han_digits(rest)}" if rest else "")


def _inner(value: int) -> str:
    """Return a number inside of another one, where ten is 一十."""
    if value >= 10**4:
        return _han(value)
    words = ""
    for size, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = value // size % 10
        if digit:
            words += _HAN[digit] + name
        elif words and value % size and not words.endswith("零"):
            words += "零"
    return words
