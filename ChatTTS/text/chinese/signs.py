"""Read ranges, scores, and the signs of calculations in Chinese."""

from __future__ import annotations

import re

from ..readers import Rule, rewrite
from .numbers import NUMBER

_SYMBOLS = {
    "%": "百分号", "&": "和", "@": "艾特", "+": "加", "=": "等于", "×": "乘", "÷": "除以",
    "±": "正负", "≈": "约等于", "≤": "小于等于", "≥": "大于等于", "≠": "不等于", "°": "度",
    "$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "^": "的次方", "√": "根号", "∞": "无穷大",
    "∑": "求和", "∫": "积分", "∈": "属于",
}  # fmt: skip
_POWERS = {"2": "的平方", "3": "的立方"}
_CONTESTS = "比分|落后|领先|战胜|击败|获胜|取胜|战平|不敌|告负|胜出|惜败|大胜|险胜|逆转"
_LOOK_BACK = 40  # characters; about a sentence
_TEAMS = (
    "队|中国|日本|韩国|巴西|德国|法国|英国|美国|意大利|西班牙|阿根廷|荷兰|葡萄牙|英格兰|"
    "国足|女足|男足"
)


def _power(match: re.Match[str]) -> str:
    exponent = match[1].replace("-", "负")
    return _POWERS.get(exponent, f"的{exponent}次方")


def _dash(match: re.Match[str]) -> str:
    """Return two numbers with 到 between them, or with 比 for a score: 3-2 goes down."""
    first, second = match[1], match[2]
    before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()]
    is_score = float(first) > float(second) or re.search(_CONTESTS, before)
    return f"{first}{'比' if is_score and '-' in match[0] else '到'}{second}"


_SIGNS: list[Rule] = [
    (re.compile(r"\s?\^\s?(-?\d+|[a-z]\b)", re.ASCII), _power),
    (re.compile(r"\s?÷\s?"), "除以"),
    (re.compile(r"\s?(?:≥|>=)\s?"), "大于等于"),
    (re.compile(r"\s?(?:≤|<=)\s?"), "小于等于"),
    (re.compile(r"\s?(?:≠|!=)\s?"), "不等于"),
    (re.compile(r"(?<=[\w)])\s?>\s?(?=[\w(])"), "大于"),
    (re.compile(r"(?<=[\w)])\s?<\s?(?=[\w(])"), "小于"),
    (re.compile(r"#\s?(\d+)"), r"\1号"),
    (re.compile(r"(?<!\d)(\d{1,9})(?:st|nd|rd|th)\b", re.ASCII), r"第\1"),
    (re.compile(r"(?<=\d)\s?[xX×*]\s?(?=\d)"), "乘"),
    (re.compile(r"(?<=\d)\s?/\s?(?=\d{3})"), " "),
    (re.compile(r"(?<=[A-Za-z])-?(?=\d)"), " "),
    (re.compile(r"(?<=\d)-(?=[A-Za-z])"), " "),
]
_DASHES: list[Rule] = [
    (re.compile(rf"(?<=\d)-(?=\d+(?:{_CONTESTS}))"), "比"),
    (
        re.compile(rf"((?:{_CONTESTS}|{_TEAMS})\s?\d{{1,3}})-(\d{{1,3}})(?=$|[，。！？；\s])"),
        r"\1比\2",
    ),
    (re.compile(r"(?<=\d)\s?-\s?(?=\d+\s?=)"), "减"),
    (re.compile(rf"(?<![A-Za-z\d)）%])[-−](?={NUMBER})"), "负"),
    (
        re.compile(
            r"(?<![\d.-])(\d{1,4}(?:\.\d{1,4})?)\s?[-–—]\s?(\d{1,4}(?:\.\d{1,4})?)(?![\d-]|\.\d)"
        ),
        _dash,
    ),
    (re.compile(r"(?<=\d)\s?[-–—]\s?(?=\d)"), "到"),
]
_SPANS: list[Rule] = [
    (
        re.compile(
            r"(?:(?<=\d[日号月年点时分秒天周元米克度岁%℃])|(?<=\d:\d\d)|(?<=\d：\d\d))"
            r"\s?[-–—~～]\s?(?=[$¥]?\d)"
        ),
        "到",
    ),
    (re.compile(r"==+"), "="),
    (re.compile(r"(?<=\d)\s?[~～]\s?(?=-?\d)"), "到"),
]
_SYMBOL: list[Rule] = [
    (re.compile(r'["\\]'), ""),
    (re.compile("|".join(map(re.escape, _SYMBOLS))), lambda match: _SYMBOLS[match[0]]),
]


def read_spans(text: str) -> str:
    """Return ``text`` with 到 for the dash between two dates, times or measures."""
    return rewrite(text, _SPANS)


def read_dashes(text: str) -> str:
    """Return ``text`` with 负, 减, 到 and 比 for the dashes before and between numbers."""
    return rewrite(text, _DASHES)


def read_signs(text: str) -> str:
    """Return ``text`` with the signs of calculations as words."""
    return rewrite(text, _SIGNS)


def read_symbols(text: str) -> str:
    """Return ``text`` with the symbols that are left as words."""
    return rewrite(text, _SYMBOL)
