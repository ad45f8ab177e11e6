"""Read money, measures, fractions and percentages in Chinese."""

from __future__ import annotations

import re

from ..numbers import chinese_number
from ..readers import Rule, either, rewrite
from .numbers import NUMBER, spoken

_CURRENCIES = {
    "$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "₩": "韩元", "₹": "卢比", "₽": "卢布",
    "฿": "泰铢", "₫": "越南盾", "A$": "澳元", "HK$": "港元", "US$": "美元", "C$": "加元",
    "NT$": "新台币", "S$": "新加坡元", "R$": "雷亚尔", "USD": "美元", "EUR": "欧元",
    "GBP": "英镑", "CNY": "元", "RMB": "元", "HKD": "港元", "JPY": "日元", "AUD": "澳元",
    "CAD": "加元", "KRW": "韩元", "SGD": "新加坡元", "TWD": "新台币", "CHF": "瑞士法郎",
}  # fmt: skip
_UNITS = {
    "m2": "平方米", "km2": "平方公里", "cm2": "平方厘米", "mm2": "平方毫米", "m3": "立方米",
    "cm3": "立方厘米", "dm3": "立方分米", "km": "公里", "m": "米", "dm": "分米", "cm": "厘米",
    "mm": "毫米",
    "µm": "微米", "μm": "微米", "um": "微米", "nm": "纳米", "kg": "千克",
    "KG": "千克", "Kg": "千克", "g": "克", "mg": "毫克",
    "µg": "微克", "μg": "微克", "t": "吨", "L": "升",
    "l": "升",
    "ml": "毫升", "mL": "毫升", "ML": "毫升", "dL": "分升", "cc": "毫升",
    "THz": "太赫", "GHz": "吉赫",
    "MHz": "兆赫", "kHz": "千赫", "Hz": "赫兹", "V": "伏", "mV": "毫伏", "kV": "千伏", "W": "瓦",
    "mW": "毫瓦", "kW": "千瓦", "KW": "千瓦", "MW": "兆瓦", "GW": "吉瓦", "kWh": "千瓦时",
    "Wh": "瓦时", "mA": "毫安", "mAh": "毫安时", "dB": "分贝", "ms": "毫秒", "μs": "微秒",
    "µs": "微秒", "ns": "纳秒", "s": "秒", "min": "分钟", "h": "小时", "kcal": "千卡", "cal": "卡",
    "J": "焦", "kJ": "千焦", "N": "牛", "Pa": "帕", "hPa": "百帕", "kPa": "千帕", "MPa": "兆帕",
    "mmHg": "毫米汞柱", "ha": "公顷", "mol": "摩尔", "mmol": "毫摩尔", "μmol": "微摩尔",
    "Ω": "欧", "kΩ": "千欧", "°C": "摄氏度", "°F": "华氏度", "rpm": "转每分", "ft": "英尺",
    "lb": "磅", "oz": "盎司", "mph": "英里每小时", "ppm": "百万分之一", "bpm": "次每分",
    "Mbps": "兆比特每秒", "Gbps": "吉比特每秒", "fps": "帧每秒", "kph": "公里每小时",
    "IU": "国际单位",
}  # fmt: skip
# What may be divided by, in letters and in Chinese.
_DIVISORS = {**_UNITS, "d": "天"}
_CHINESE_DIVISORS = (
    "平方米|平方公里|立方米|公斤|千克|公里|小时|分钟|分|秒|天|日|周|月|年|人|次|斤|吨|升|克|米|个|件|套|户|亩|晚|"
    "月份|季度|期|节|课时|班|平|度|千瓦时|杯|瓶|箱|盒"
)
_SCALES = "千亿|百亿|十亿|千万|百万|十万|亿|万|千|百"


def _fraction(match: re.Match[str]) -> str:
    sign = "负" if match["sign"] else ""
    whole = f"{chinese_number(match['whole'])}又" if match["whole"] else ""
    above, below = match["above"], match["below"]
    if above == below:
        return match[0].replace("/", "比")
    return f"{sign}{whole}{chinese_number(below)}分之{chinese_number(above)}"


def _part(match: re.Match[str]) -> str:
    sign = "负" if match["sign"] in ("-", "−", "负") else ""
    whole = "百" if match["mark"] == "%" else "千"
    number = "百" if match[0] == "100%" else chinese_number(match["number"])
    return f"{sign}{whole}分之{number}"


def _measure(match: re.Match[str]) -> str:
    number, unit, divisor = match["number"], match["unit"], match["divisor"]
    if unit == "ppm":
        return f"百万分之{chinese_number(number)}"
    said = "两" if number == "2" else spoken(number)
    name = _UNITS[unit]
    if divisor is None:
        return said + name
    if (unit, divisor) == ("km", "h"):
        return f"每小时{said}{name}"
    count = match["count"] or ""
    return f"{said}{name}每{chinese_number(count) if count else ''}{_DIVISORS[divisor]}"


_MONEY: list[Rule] = [
    (re.compile(r"(?<=\d)\.00?(?=元|块|美元|欧元)"), ""),
    (
        re.compile(rf"(?<![A-Za-z])({either(_CURRENCIES)})\s?({NUMBER})({_SCALES})?"),
        lambda match: f"{match[2]}{match[3] or ''}{_CURRENCIES[match[1]]}",
    ),
    (
        re.compile(rf"({NUMBER})({_SCALES})?\s?(€|£|USD|EUR|RMB|CNY)(?![A-Za-z\d])"),
        lambda match: f"{match[1]}{match[2] or ''}{_CURRENCIES[match[3]]}",
    ),
]
_MEASURES: list[Rule] = [
    # Blood pressure is two numbers with one unit.
    (re.compile(r"(\d{2,3})\s?/\s?(\d{2,3})(?=\s?mmHg)"), r"\1，\2"),
    (
        re.compile(
            rf"(?<![A-Za-z])(?<![A-Za-z] )(?P<number>{NUMBER})\s?(?P<unit>{either(_UNITS)})"
            rf"(?:\s?/\s?(?P<count>1\d{{1,3}})?(?P<divisor>{either(_DIVISORS)}))?(?![A-Za-z0-9])"
        ),
        _measure,
    ),
    (
        re.compile(
            rf"(?<=[\d百千万亿])([\u4e00-\u9fff]{{1,3}})/({_CHINESE_DIVISORS}|(?:{either(_DIVISORS)})(?![A-Za-z0-9]))"
        ),
        lambda match: f"{match[1]}每{_DIVISORS.get(match[2], match[2])}",
    ),
    (re.compile(r"(?<=\d)\s?°"), "度"),
    (re.compile(r"(?<=\d)[wW](?=[^A-Za-z]|$)"), "万"),
]
_FRACTIONS: list[Rule] = [
    (re.compile(rf"({NUMBER})\s?[-–—~～至到]\s?(?={NUMBER}%)"), r"\1%到"),
    (re.compile(rf"(?P<sign>(?<![A-Za-z\d)%])[-−]|负)?(?P<number>{NUMBER})(?P<mark>[%‰])"), _part),
    (
        re.compile(
            rf"(?P<sign>(?<![A-Za-z\d)%])[-−])?(?:(?P<whole>{NUMBER})(?P<rest>又))?(?P<number>[百千万]|\d{{1,20}})分之(?P<above>\d{{1,20}})"
        ),
        lambda match: (
            ("负" if match["sign"] else "")
            + (chinese_number(match["whole"]) if match["whole"] else "")
            + (match["rest"] or "")
            + (match["number"] if match["number"] in "百千万" else chinese_number(match["number"]))
            + f"分之{chinese_number(match['above'])}"
        ),
    ),
    (
        re.compile(
            r"(?P<sign>(?<![A-Za-z\d)%])[-−]|负)?(?:(?P<whole>\d{1,9})(?:又|\s))?(?<![\d/.])(?P<above>\d{1,6})\s?/\s?"
            r"(?P<below>[1-9]\d{0,5})(?![\d/.])"
        ),
        _fraction,
    ),
]


def read_money(text: str) -> str:
    """Return ``text`` with the names of currencies behind their amounts."""
    return rewrite(text, _MONEY)


def read_measures(text: str) -> str:
    """Return ``text`` with measures as words: 60km/h is 每小时六十公里."""
    return rewrite(text, _MEASURES)


def read_fractions(text: str) -> str:
    """Return ``text`` with fractions and percentages as words: 1/5 is 五分之一."""
    return rewrite(text, _FRACTIONS)
