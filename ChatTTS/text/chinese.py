"""Read digits and symbols in Chinese: ``wetext`` reads whole sentences well.

Notations that it misreads are rewritten first. Digits that it leaves are read as plain numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .numbers import LONG_RUN, chinese_digits, chinese_number
from .roman import read_chinese_roman
from .signs import name_greek

Ask = Callable[[str], "str | None"]  # the grammar: the text read out, or None

_NUMBER = r"\d+(?:\.\d+)?"
_CURRENCIES = {
    "$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "₩": "韩元", "₹": "卢比",
    "A$": "澳元", "HK$": "港元", "US$": "美元", "C$": "加元", "NT$": "新台币",
    "USD": "美元", "EUR": "欧元", "GBP": "英镑", "CNY": "元", "RMB": "元", "HKD": "港元",
    "JPY": "日元", "AUD": "澳元", "CAD": "加元", "KRW": "韩元",
}  # fmt: skip
# Not those that the grammar reads, such as "km/h" and "°C".
_UNITS = {
    "m2": "平方米", "km2": "平方公里", "cm2": "平方厘米", "mm2": "平方毫米", "m3": "立方米",
    "cm3": "立方厘米", "m/s": "米每秒", "km": "公里", "m": "米", "cm": "厘米", "mm": "毫米",
    "µm": "微米", "μm": "微米", "nm": "纳米", "kg": "千克", "g": "克", "mg": "毫克", "t": "吨",
    "L": "升", "l": "升", "ml": "毫升", "mL": "毫升", "GHz": "吉赫", "MHz": "兆赫", "kHz": "千赫",
    "Hz": "赫兹", "V": "伏", "kV": "千伏", "W": "瓦", "kW": "千瓦", "kWh": "千瓦时",
    "mA": "毫安", "mAh": "毫安时", "dB": "分贝", "ms": "毫秒", "s": "秒", "min": "分钟",
    "h": "小时", "kcal": "千卡", "Pa": "帕", "hPa": "百帕", "kPa": "千帕", "ha": "公顷",
}  # fmt: skip
_SCALES = "千亿|百亿|十亿|千万|百万|十万|亿|万|千|百"
_SYMBOLS = {
    "%": "百分号", "&": "和", "@": "艾特", "+": "加", "=": "等于", "×": "乘", "÷": "除以",
    "±": "正负", "≈": "约等于", "≤": "小于等于", "≥": "大于等于", "≠": "不等于", "°": "度",
    "$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "^": "的次方", "√": "根号", "∞": "无穷大",
    "∑": "求和", "∫": "积分", "∈": "属于",
}  # fmt: skip
_HALVES = {"a": "上午", "p": "下午"}


def read_chinese(text: str, ask: Ask) -> str:
    """Return ``text`` with numbers and symbols as Chinese words, without ASCII digits."""
    text = LONG_RUN.sub(lambda match: chinese_digits(match[0]), text)
    text = _WEB_ADDRESS.sub(_web_address, text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = _IP.sub(lambda match: "点".join(map(chinese_digits, match.groups())), text)
    text = read_chinese_roman(name_greek(text, "zh"))
    text = _DATE.sub(_date, _TRADE.sub(r"\1 to \2", text))
    text = _MOBILE.sub(lambda match: _phone(match[0]), text)
    text = _LAND_LINE.sub(lambda match: _phone(match[0]), text)
    text = _HALF_DAY.sub(lambda match: f"{_HALVES[match[2].lower()]}{match[1]}", text)
    text = _HOUR.sub(r"\1点", text)
    text = _MONEY.sub(lambda match: f"{match[2]}{match[3] or ''}{_CURRENCIES[match[1]]}", text)
    text = _VERSION.sub(_version, text)
    text = _POWER.sub(_power, text)
    text = _MEASURE.sub(lambda match: f"{match[1]}{_UNITS[match[2]]}", text)
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
_HOUR = re.compile(r"((?:上午|下午)\d{1,2})(?![\d:点时])")
_LONGEST_FIRST = sorted(_CURRENCIES, key=len, reverse=True)
_MONEY = re.compile(
    rf"(?<![A-Za-z])({'|'.join(map(re.escape, _LONGEST_FIRST))})\s?({_NUMBER})({_SCALES})?"
)
_MEASURE = re.compile(
    rf"({_NUMBER})\s?({'|'.join(sorted(_UNITS, key=len, reverse=True))})(?![A-Za-z0-9/])"
)
_IP = re.compile(r"(?<![\d.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\d.])")
_DATE = re.compile(
    r"(?<![\d.])(?P<year>(?:1\d|20)\d\d)(?:(?P<sign>[./-])(?P<month>0?[1-9]|1[0-2])(?P=sign)"
    r"(?P<day>0?[1-9]|[12]\d|3[01])|[-/](?P<alone>0[1-9]|1[0-2]))(?![\d./-])"
)
# Kinds of trade, such as B2B.
_TRADE = re.compile(r"\b(?=B2B|B2C|B2G|C2C|C2B|D2C|O2O|P2P)([A-Z])2([A-Z])\b", re.ASCII)
_POWER = re.compile(r"\s?\^\s?(-?\d+|[a-z]\b)", re.ASCII)
_POWERS = {"2": "的平方", "3": "的立方"}
_VERSION = re.compile(
    r"(?<![\d.])v?\d+(?:\.\d+){2,}(?![\d.])|(?<![A-Za-z])v\d+(?:\.\d+)?", re.ASCII
)
_SCORE = "落后|领先|战胜|击败|获胜|取胜|战平|不敌|告负|胜出|惜败"
_REWRITES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(rf"(?<=\d)-(?=\d+(?:{_SCORE}))"), "比"),
    (re.compile(r"(?<![\d.])100%"), "百分之百"),
    (re.compile(r"\s?÷\s?"), "除以"),
    (re.compile(r"\s?(?:≥|>=)\s?"), "大于等于"),
    (re.compile(r"\s?(?:≤|<=)\s?"), "小于等于"),
    (re.compile(r"\s?(?:≠|!=)\s?"), "不等于"),
    (re.compile(r"(?<=[\w)])\s?>\s?(?=[\w(])"), "大于"),
    (re.compile(r"(?<=[\w)])\s?<\s?(?=[\w(])"), "小于"),
    (re.compile(r"(?<=\d)[wW](?=[^A-Za-z]|$)"), "万"),
    (re.compile(r"(?<=公元前)\d{1,4}(?=年)"), lambda match: chinese_digits(match[0])),
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
    said = re.sub(r"\d+", lambda digits: chinese_digits(digits[0]), said)
    for symbol, word in ((".", "点"), ("/", "斜杠"), ("-", "杠"), ("_", "下划线")):
        said = said.replace(symbol, word)
    return said


def _phone(written: str) -> str:
    """Return the digits one by one, 一 as 幺, with a pause between groups."""
    plus = "加" if written.startswith("+") else ""
    groups = re.findall(r"\d+", written)
    return plus + "，".join(chinese_digits(group).replace("一", "幺") for group in groups)


def _date(match: re.Match[str]) -> str:
    if match["alone"]:
        return f"{match['year']}年{int(match['alone'])}月"
    return f"{match['year']}年{int(match['month'])}月{int(match['day'])}日"


def _power(match: re.Match[str]) -> str:
    exponent = match[1].replace("-", "负")
    return _POWERS.get(exponent, f"的{exponent}次方")


def _version(match: re.Match[str]) -> str:
    return "点".join(chinese_number(part) for part in match[0].removeprefix("v").split("."))
