"""Sums of money: ￥199, $1.5亿, ¥100-200, HK$5k, 50EUR."""

from __future__ import annotations

import re
from decimal import Decimal

from ..number_words import chinese_digits
from ..readers import either
from ..spans import span
from .numbers import BETWEEN, WHOLE, WRITTEN, spoken

_CURRENCIES = {
    "$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "₩": "韩元", "₹": "卢比", "₽": "卢布",
    "฿": "泰铢", "₫": "越南盾", "A$": "澳元", "HK$": "港元", "US$": "美元", "C$": "加元",
    "NT$": "新台币", "S$": "新加坡元", "R$": "雷亚尔", "USD": "美元", "EUR": "欧元", "GBP": "英镑",
    "CNY": "元", "RMB": "元", "HKD": "港元", "JPY": "日元", "AUD": "澳元", "CAD": "加元",
    "KRW": "韩元", "SGD": "新加坡元", "TWD": "新台币", "CHF": "瑞士法郎",
}  # fmt: skip
_SIGNS = ("€", "£", "$", "¥", "₩", "₽", "₹")
_BEHIND = either(name for name in _CURRENCIES if name.isalpha() or name in _SIGNS)
_AGAIN = r"(?:\s?(?:人民币|美元|美金|欧元|英镑|港元|港币|日元|新台币|台币|加元|澳元|[元块圆]))?"
# Characters of Hong Kong and Taiwan, where $ is their own currency.
_TRADITIONAL = re.compile(
    "[這個們來時國說會為對過還後開關點見沒當將萬與從現動樣學麼兩經長應內進間問業產電話價錢號線車機場員買賣單網氣臺灣圓"
    "優惠專櫃訂購體驗費達內幣隻條張門總]"
)
_SCALES = {
    "k": (1, "千"), "K": (1, "千"), "M": (100, "万"), "m": (100, "万"), "B": (10, "亿"),
    "bn": (10, "亿"),
}  # fmt: skip
_SCALE = rf"(?P<scale>千亿|百亿|十亿|千万|百万|十万|亿|万|千|百|(?:{either(_SCALES)})(?![A-Za-z]))?"
_BEFORE = re.compile(
    rf"(?<![A-Za-z])(?P<name>{either(_CURRENCIES)})\s?(?P<minus>[-−]?)"
    rf"(?:(?P<low>{WRITTEN})\s?{BETWEEN}\s?(?:(?P=name)\s?)?)?(?P<number>{WRITTEN}){_SCALE}{_AGAIN}"
)
_AFTER = re.compile(
    rf"(?<![A-Za-z\d.])(?:(?P<low>{WRITTEN})\s?{BETWEEN}\s?)?(?P<number>{WRITTEN}){_SCALE}\s?"
    rf"(?P<minus>)(?P<name>{_BEHIND})(?![A-Za-z\d])"
)


_NEAR = 40  # characters around an amount
# Three digits behind a point, and a sign of the euro behind them: thousands.
_POINTED = re.compile(r"\d{1,3}(?:\.\d{3}){1,5}(?=\s?€)")


def _say(match: re.Match[str]) -> str:
    number = re.sub(r"\.00?\Z", "", match["number"])
    if _POINTED.match(match.string, match.start("number")):
        number = number.replace(".", "")
    # 13.3B is 一百三十三亿.
    times, scale = _SCALES.get(match["scale"] or "", (1, match["scale"] or ""))
    number = _scaled(number, times)
    low = f"{spoken(_scaled(match['low'], times))}到" if match["low"] else ""
    minus = "负" if match["minus"] else ""
    amount = "两" if number == "2" else spoken(number)
    name = _CURRENCIES[match["name"]]
    if match["name"] == "$" and _TRADITIONAL.search(
        match.string[max(0, match.start() - _NEAR) : match.end() + _NEAR]
    ):
        name = "元"
    return f"{minus}{low}{amount}{scale}{name}"


def _scaled(number: str, times: int) -> str:
    product = Decimal(number.replace(",", "")) * times
    return number if times == 1 else f"{product.normalize():f}"


def _pair(match: re.Match[str]) -> str | None:
    """Return 美元兑人民币 for USD/CNY."""
    names = [_CURRENCIES.get(match[side]) for side in ("first", "second")]
    if None in names:
        return None
    return "兑".join("人民币" if name == "元" else str(name) for name in names)


MONEY = (
    span(
        "pairs of currencies",
        r"(?<![A-Za-z])(?P<first>[A-Z]{3})\s?/\s?(?P<second>[A-Z]{3})(?![A-Za-z])",
        _pair,
    ),
    span("money", _BEFORE, _say),
    span("money before its name", _AFTER, _say),
    span(
        "rebates",
        r"满(?P<sum>\d{2,5})[-–—](?P<less>\d{1,5})(?![\d.-])",
        lambda match: f"满{spoken(match['sum'])}减{spoken(match['less'])}",
    ),
    span(
        "discounts",
        r"(?<![\d.])\d\d(?=折)",
        lambda match: chinese_digits(match[0]) if match[0][1] != "0" else None,
    ),
    span("sums per half a day", r"(?<=[元块])/(?=[半每])", "每"),
    span("instalments", r"(?<=[元块\d])/(?=\d{1,3}期)", "分"),
    span(
        "round sums",
        rf"(?a)(?<![\w.,])(?P<sum>{WHOLE})\.00?(?=元|块|美元|欧元|[万亿])",
        lambda match: spoken(match["sum"]),
    ),
)
