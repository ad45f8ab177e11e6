"""Read amounts of money in English."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..numbers import english_number
from ..readers import either
from .amounts import NUMBER, SCALES


class _Currency(NamedTuple):
    one: str
    many: str
    one_part: str = ""
    parts: str = ""


_DOLLAR = _Currency("dollar", "dollars", "cent", "cents")
_SIGNS = {
    "$": _DOLLAR,
    "€": _Currency("euro", "euros", "cent", "cents"),
    "£": _Currency("pound", "pounds", "penny", "pence"),
    "¥": _Currency("yen", "yen"),
    "₩": _Currency("won", "won"),
    "₹": _Currency("rupee", "rupees", "paisa", "paise"),
    "₣": _Currency("franc", "francs", "centime", "centimes"),
    "₽": _Currency("ruble", "rubles", "kopeck", "kopecks"),
    "₺": _Currency("lira", "lira"),
    "₪": _Currency("shekel", "shekels"),
    "₫": _Currency("dong", "dong"),
    "฿": _Currency("baht", "baht"),
    "₴": _Currency("hryvnia", "hryvnias"),
    "₦": _Currency("naira", "naira"),
    "₱": _Currency("peso", "pesos"),
    "₿": _Currency("bitcoin", "bitcoins"),
    "¢": _Currency("cent", "cents"),
}
# Letters before a dollar sign.
_COUNTRIES = {
    "US": "US", "AU": "Australian", "A": "Australian", "CA": "Canadian", "C": "Canadian",
    "HK": "Hong Kong", "NZ": "New Zealand", "S": "Singapore", "NT": "New Taiwan",
    "MX": "Mexican",
}  # fmt: skip


def _named(country: str, currency: _Currency) -> _Currency:
    return currency._replace(one=f"{country} {currency.one}", many=f"{country} {currency.many}")


_CROWN = _Currency("krone", "kroner")
_RUPEE = _SIGNS["₹"]
_REAL = _Currency("real", "reais", "centavo", "centavos")
_ZLOTY = _Currency("zloty", "zloty")
_LETTERS = {
    **{f"{letters}$": _named(name, _DOLLAR) for letters, name in _COUNTRIES.items()},
    "R$": _REAL,
    "Rs": _RUPEE,
    "USD": _named("US", _DOLLAR), "CAD": _named("Canadian", _DOLLAR),
    "AUD": _named("Australian", _DOLLAR), "HKD": _named("Hong Kong", _DOLLAR),
    "NZD": _named("New Zealand", _DOLLAR), "SGD": _named("Singapore", _DOLLAR),
    "EUR": _SIGNS["€"], "GBP": _SIGNS["£"], "JPY": _SIGNS["¥"], "KRW": _SIGNS["₩"],
    "INR": _RUPEE, "CHF": _named("Swiss", _SIGNS["₣"]), "RUB": _SIGNS["₽"],
    "CNY": _Currency("yuan", "yuan"), "RMB": _Currency("yuan", "yuan"), "BRL": _REAL,
    "MXN": _named("Mexican", _SIGNS["₱"]), "TRY": _SIGNS["₺"], "ILS": _SIGNS["₪"],
    "SEK": _Currency("Swedish krona", "Swedish kronor"), "NOK": _named("Norwegian", _CROWN),
    "DKK": _named("Danish", _CROWN), "PLN": _ZLOTY, "ZAR": _Currency("rand", "rand"),
    "BTC": _SIGNS["₿"],
}  # fmt: skip
_AFTER = {code: currency for code, currency in _LETTERS.items() if "$" not in code} | {
    "kr": _CROWN,
    "zl": _ZLOTY,
}
_PERIODS = {
    "mo": "month", "yr": "year", "wk": "week", "d": "day", "hr": "hour", "h": "hour",
    "min": "minute", "kg": "kilogram", "lb": "pound", "GB": "gigabyte", "month": "month",
    "year": "year", "week": "week", "day": "day", "hour": "hour", "night": "night",
    "person": "person", "kWh": "kilowatt hour", "km": "kilometer", "mile": "mile",
    "barrel": "barrel", "ton": "ton", "oz": "ounce", "l": "liter", "L": "liter",
    "user": "user", "seat": "seat", "head": "head", "piece": "piece", "unit": "unit",
    "pc": "piece", "bbl": "barrel", "ea": "piece", "pp": "person", "sqft": "square foot",
}  # fmt: skip


_SIGN = f"[{''.join(_SIGNS).replace('¢', '')}]"
_BEFORE = rf"(?:(?<!\w)(?P<code>{either(_LETTERS)})\.?|(?P<sign>{_SIGN}))"
_SCALE = rf"(?:{'|'.join(sorted(SCALES, key=len, reverse=True))}|MM|Mn|BN)\b|[kKmMbB](?![A-Za-z])"
_MONEY = re.compile(
    rf"(?P<article>\b[Aa]n?\s)?{_BEFORE}\s?(?P<amount>{NUMBER})"
    rf"(?:[\s-]?(?P<scale>(?i:{_SCALE})))?(?P<noun>\s(?=[a-z]))?"
    rf"|(?P<amount_after>{NUMBER})(?:\s(?P<scale_after>[mbt]n|[mbtr]+illion))?\s?"
    rf"(?:(?P<sign_after>{_SIGN}|¢)(?![\d.])|(?P<code_after>{either(_AFTER)})\b)"
)
# "$5 to 10" and "$1 to 2 million": the sign stands for both.
_RANGE = re.compile(rf"({_SIGN})({NUMBER}) to (?={NUMBER}(?![\w%]|\s?(?:{_SIGN}|%|to\b)))")
_RATE = re.compile(rf"({_SIGN}\s?{NUMBER}(?:\s?[kKmMbB])?)\s?/\s?({either(_PERIODS)})\b")
# A comma before two decimals, as in most of Europe and South America: "€1.234,56" and "12,50 €".
_COMMA = r"(\d{1,3}(?:[.\s]\d{3})+|\d+),(\d{1,2})(?!\d)"
_ANY_SIGN = rf"(?:{_SIGN}|\b(?:EUR|R\$|kr|zl|PLN|BRL|CHF|SEK|NOK|DKK)(?!\w))"
_DECIMAL_COMMA = re.compile(rf"({_ANY_SIGN}\s?){_COMMA}|(?<![\d.,]){_COMMA}(?=\s?{_ANY_SIGN})")
# Three digits behind a point and an euro: thousands, as in most of Europe; "€1.299/l" is a price.
_POINTED = r"(\d{1,3}(?:\.\d{3})+)(?!\d|[.,]\d|\s?/)"
_GROUPED = re.compile(rf"(€\s?){_POINTED}|(?<![\d.,€]){_POINTED}(?=\s?(?:€|EUR\b)(?!\s?/))")


def read_money(text: str) -> str:
    """Return ``text`` with amounts of money as words: "$5.20" is five dollars and twenty cents."""
    text = _DECIMAL_COMMA.sub(_with_point, text)
    text = _GROUPED.sub(lambda match: match[0].replace(".", ""), text)
    text = _RATE.sub(lambda match: f"{match[1]} per {_PERIODS[match[2]]}", text)
    text = _RANGE.sub(r"\2 to \1", text)
    return _MONEY.sub(_say, text)


def _with_point(match: re.Match[str]) -> str:
    sign, whole, decimals = match[1] or "", match[2] or match[4], match[3] or match[5]
    return f"{sign}{''.join(filter(str.isdigit, whole))}.{decimals}"


def _say(match: re.Match[str]) -> str:
    code, code_after = match["code"], match["code_after"]
    currency = (
        _LETTERS[code]
        if code
        else _AFTER[code_after]
        if code_after
        else _SIGNS[match["sign"] or match["sign_after"]]
    )
    amount = (match["amount"] or match["amount_after"]).replace(",", "")
    article, after = match["article"] or "", match["noun"] or ""
    if article and after:  # "a $10 bill"
        currency = currency._replace(many=currency.one)
    if scale := match["scale"] or match["scale_after"]:
        return f"{article}{english_number(amount)} {SCALES[scale.lower()]} {currency.many}{after}"
    whole, _, decimals = amount.partition(".")
    if len(decimals) > 2 and not decimals[2:].strip("0"):
        decimals = decimals[:2]
    if not 1 <= len(decimals) <= 2 or not currency.parts:
        unit = currency.one if amount == "1" else currency.many
        return f"{article}{english_number(amount)} {unit}{after}"
    major, minor = int(whole or "0"), int(decimals.ljust(2, "0"))
    said = []
    if major:
        said.append(f"{english_number(str(major))} {currency.one if major == 1 else currency.many}")
    if minor or not major:
        part = currency.one_part if minor == 1 else currency.parts
        said.append(f"{english_number(str(minor))} {part}")
    return article + " and ".join(said) + after
