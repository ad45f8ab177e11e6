"""Amounts of money: "$5.20", "€1.234,56", "$1.4-1.5 bln", "a $10 bill", "12 SEK/kg"."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..number_words import english_number
from ..readers import either
from ..spans import span
from .amounts import NUMBER, SCALES
from .measures import DIVISORS


class _Currency(NamedTuple):
    one: str
    many: str
    one_part: str = ""
    parts: str = ""
    country: str = ""


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
    one, many = f"{country} {currency.one}", f"{country} {currency.many}"
    return currency._replace(one=one, many=many, country=f"{country} ")


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
_PERIODS = DIVISORS | {
    "mile": "mile", "barrel": "barrel", "ton": "ton", "user": "user", "seat": "seat",
    "head": "head", "piece": "piece", "unit": "unit", "pc": "piece", "pp": "person",
}  # fmt: skip


_SIGN = f"[{''.join(_SIGNS).replace('¢', '')}]"
_CODE = rf"(?<!\w)(?:{either(_LETTERS)})\.?|{_SIGN}"
_CODE_AFTER = rf"(?:{_SIGN}|¢)(?!\.?\d)|(?:{either(_AFTER)})\b"
# Groups as in India, in most of Europe ("€1.234,56", "12,50 €"), and with spaces or apostrophes.
_AMOUNT = (
    r"(?:\d{1,2}(?:,\d{2}){1,6},\d{3}(?![\d,])|\d{1,3}(?:[.\s]\d{3}){1,6},\d{1,2}(?!\d)|"
    r"\d{1,12},\d{1,2}(?!\d)|\d{1,3}(?:'\d{3}){1,6}(?:\.\d\d)?(?!\d)|"
    rf"\d{{1,3}}(?:[. ]\d{{3}}){{2,6}}(?!\d)|{NUMBER})"
)
_DECIMAL_COMMA = re.compile(r"(?P<whole>[\d.\s]{1,40}),(?P<part>\d\d?)")
# Three digits behind a point and an euro: thousands; "€1.299/l" is a price.
_POINTED = re.compile(r"\d{1,3}(?:\.\d{3})+")
_SCALE = rf"(?i:{either(name for name in SCALES if len(name) > 1)})\b|[kKmMbBT](?![A-Za-z]|-[a-z])"
_TO = r"(?:\s?[-–—~]\s?|\sto\s)"
_COUNTED = r"\s(?:[mb]illion|people|men|women|children|[a-z]{3,20}s)\b"
_AFTER_RANGE = rf"(?![\w%]|[.,:]\d|\s?(?:{_SIGN}|%|to\b))"
_PERIOD = (
    rf"(?:(?:\s?/\s?|\s(?=(?:pp|ea)\b))(?P<period>{either(_PERIODS)}|ea|(?<=/)(?!obo|or\b|and\b)[a-z]{{2,5}})\b)?(?:(?<=\w)/(?P<second>[A-Za-z]{{2,8}}\b))?"
    r"(?P<noun>(?=[\s-][a-z]))?"
)
_MINUS = r"(?P<minus>(?<![\w)])[-−])?"
_BEFORE = re.compile(
    rf"(?P<article>\b[Aa]n?\s)?{_MINUS}(?P<code>{_CODE})\s?"
    rf"(?P<first>{_AMOUNT})(?:[\s-]?(?P<first_scale>{_SCALE}))?"
    rf"(?:{_TO}(?P<code_last>(?:{_CODE})\s?)?(?P<last>{_AMOUNT})(?:[\s-]?(?P<scale>{_SCALE}))?"
    rf"{_AFTER_RANGE}(?(code_last)|(?!{_COUNTED})))?{_PERIOD}"
)
_BEHIND = re.compile(
    rf"(?P<article>\b[Aa]n?\s)?{_MINUS}(?<![\w.,])(?:(?P<first>{_AMOUNT})(?P<first_scale>(?!))?"
    rf"{_TO})?(?P<last>{_AMOUNT})(?:\s?(?P<scale>[mbt]n|[mb]ln|[mbtr]+illion))?\s?"
    rf"(?P<code>{_CODE_AFTER})(?P<code_last>(?!))?{_PERIOD}"
)


def _say(match: re.Match[str]) -> str:
    """Return an amount, or a range of two, with what it is paid for."""
    code = match["code"].rstrip(".")
    currency = _SIGNS.get(code) or _AFTER.get(code) or _LETTERS[code]
    if match["article"] and match["noun"] is not None:  # "a $10 bill"
        currency = currency._replace(many=currency.one)
    is_price = match["period"] is not None
    values = [_value(match[name] or "", code, is_price) for name in ("first", "last")]
    first, last = values
    scales = [match["first_scale"], match["scale"]]
    if scales[1] and not scales[0] and first and float(first) < float(last):
        scales[0] = scales[1]  # "$1.4-1.5 bln": both are billions
    amounts = [_amount(*each, currency) for each in zip(values, scales, strict=True) if each[0]]
    if first and last and scales[0] == scales[1] and (scales[0] or not match["code_last"]):
        is_round = scales[0] or not {"."} & {*first, *last} or not currency.parts
        amounts[0] = english_number(first) if is_round else amounts[0]
    said = " to ".join(amounts)
    if match["period"]:
        period = match["period"]
        said += " each" if period == "ea" else f" per {_PERIODS.get(period, period)}"
        said += f" per {match['second']}" if match["second"] else ""
    return f"{match['article'] or ''}{'minus ' if match['minus'] else ''}{said}"


def _value(written: str, code: str, is_price: bool) -> str:
    """Return an amount without groups and with a decimal point."""
    bare = re.sub(r"[\s']", "", written)
    if found := _DECIMAL_COMMA.fullmatch(bare):
        return f"{found['whole'].replace('.', '')}.{found['part']}"
    is_euro = code in ("€", "EUR") and not is_price
    if bare.count(".") > 1 or (is_euro and _POINTED.fullmatch(bare)):
        return bare.replace(".", "")
    return bare.replace(",", "")


def _amount(amount: str, scale: str | None, currency: _Currency) -> str:
    if scale:
        return f"{english_number(amount)} {SCALES[scale.lower()]} {currency.many}"
    whole, _, decimals = amount.partition(".")
    if len(decimals) > 2 and not decimals[2:].strip("0"):
        decimals = decimals[:2]
    if not 1 <= len(decimals) <= 2 or not currency.parts:
        return f"{english_number(amount)} {currency.one if amount == '1' else currency.many}"
    major, minor = int(whole or "0"), int(decimals.ljust(2, "0"))
    said = []
    if major:
        said.append(f"{english_number(str(major))} {currency.one if major == 1 else currency.many}")
    if minor or not major:
        part = currency.one_part if minor == 1 else currency.parts
        country = "" if major else currency.country  # "fifty Hong Kong cents"
        said.append(f"{english_number(str(minor))} {country}{part}")
    return " and ".join(said)


MONEY = (
    span("pairs of currencies", r"\b([A-Z]{3})/([A-Z]{3})(?=\s\d)", r"\1 \2"),
    span("amounts of money", _BEFORE, _say),
    span("amounts before their currency", _BEHIND, _say),
)
