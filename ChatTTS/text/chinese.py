"""Read digits and symbols in Chinese: ``wetext`` reads whole sentences well.

Notations that it misreads are rewritten first. Digits that it leaves are read as plain numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .numbers import LONG_RUN, chinese_digits, chinese_number

Ask = Callable[[str], "str | None"]  # the grammar: the text read out, or None

_NUMBER = r"\d+(?:\.\d+)?"
_CURRENCIES = {"$": "美元", "€": "欧元", "£": "英镑", "¥": "元"}
_SCALES = "千亿|百亿|十亿|千万|百万|十万|亿|万|千|百"
_SYMBOLS = {
    "%": "百分号", "&": "和", "@": "艾特", "+": "加", "=": "等于", "×": "乘", "÷": "除以",
    "±": "正负", "≈": "约等于", "≤": "不大于", "≥": "不小于", "≠": "不等于", "°": "度",
    "$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "^": "的次方",
}  # fmt: skip
_HALVES = {"a": "上午", "p": "下午"}


def read_chinese(text: str, ask: Ask) -> str:
    """Return ``text`` with numbers and symbols as Chinese words, without ASCII digits."""
    text = LONG_RUN.sub(lambda match: chinese_digits(match[0]), text)
    text = _WEB_ADDRESS.sub(_web_address, text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = _MOBILE.sub(lambda match: _phone(match[0]), text)
    text = _LAND_LINE.sub(lambda match: _phone(match[0]), text)
    text = _HALF_DAY.sub(lambda match: f"{_HALVES[match[2].lower()]}{match[1]}", text)
    text = _HOUR.sub(r"\1点", text)
    text = _MONEY.sub(lambda match: f"{match[2]}{match[3] or ''}{_CURRENCIES[match[1]]}", text)
    text = _VERSION.sub(_version, text)
    for pattern, words in _REWRITES:
        text = pattern.sub(words, text)
    text = "".join(_asked(clause, ask) for clause in _CLAUSE_END.split(text))
    text = re.sub(_NUMBER, lambda match: chinese_number(match[0]), text)
    return _SYMBOL.sub(lambda match: _SYMBOLS[match[0]], text)


_WEB_ADDRESS = re.compile(
    r"(?:https?://|www\.)[\w%&=/.?#:~+-]*[\w/]|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[A-Za-z][\w-]*)+",
    re.ASCII,
)
_MOBILE = re.compile(r"(?<!\d)(?:\+?86[\s-]?)?1[3-9]\d[\s-]?\d{4}[\s-]?\d{4}(?!\d)")
_LAND_LINE = re.compile(r"(?<![\d-])(?:0\d{2,3}[\s-]?\d{7,8}|[48]00-\d{3,4}-\d{3,4})(?![\d-])")
_HALF_DAY = re.compile(
    r"(?<![\d:])(\d{1,2}(?::\d{2})?)\s?([ap])\.?m\b\.?", re.IGNORECASE | re.ASCII
)
_HOUR = re.compile(r"((?:上午|下午)\d{1,2})(?![\d:])")
_MONEY = re.compile(rf"([$€£¥])\s?({_NUMBER})({_SCALES})?")
_VERSION = re.compile(
    r"(?<![\d.])v?\d+(?:\.\d+){2,}(?![\d.])|(?<![A-Za-z])v\d+(?:\.\d+)?", re.ASCII
)
_REWRITES = [
    (re.compile(r"(?<=\d)\s?-\s?(?=\d+\s?=)"), "减"),
    (re.compile(r"(?<![\d-])(\d{1,4}%?)\s?[-–—~～]\s?(?=\d{1,4}(?![\d-]))"), r"\1到"),
    (re.compile(r"#\s?(\d+)"), r"\1号"),
    (re.compile(r"(\d+)(?:st|nd|rd|th)\b", re.ASCII), r"第\1"),
    (re.compile(r"(?<=\d)\s?[xX×*]\s?(?=\d)"), "乘"),
    (re.compile(r"(?<=\d)\s?/\s?(?=\d{3})"), " "),
    (re.compile(r"(?<=\d)g\b", re.ASCII), "克"),
    (re.compile(r"(?<=[A-Za-z])-?(?=\d)"), " "),
    (re.compile(r"(?<=\d)-(?=[A-Za-z])"), " "),
]
_SYMBOL = re.compile("|".join(map(re.escape, _SYMBOLS)))

_CLAUSE_END = re.compile("([，。！？；])")


def _asked(clause: str, ask: Ask) -> str:
    if not re.search(r"\d", clause):
        return clause
    clause = re.sub(r'["\\]', "", clause)  # the grammar would put a backslash before each
    return ask(clause) or clause


def _web_address(match: re.Match[str]) -> str:
    """Return an address as it is spoken, without scheme and query."""
    said = re.sub(r"^(?:https?://)?(?:www\.)?", "", re.split(r"[?#]", match[0])[0]).rstrip("/")
    for symbol, word in ((".", "点"), ("/", "斜杠"), ("-", "杠"), ("_", "下划线")):
        said = said.replace(symbol, word)
    return said


def _phone(written: str) -> str:
    """Return the digits one by one, 一 as 幺, with a pause between groups."""
    plus = "加" if written.startswith("+") else ""
    groups = re.findall(r"\d+", written)
    return plus + "，".join(chinese_digits(group).replace("一", "幺") for group in groups)


def _version(match: re.Match[str]) -> str:
    return "点".join(chinese_number(part) for part in match[0].removeprefix("v").split("."))
