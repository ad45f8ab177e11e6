"""Numbers to call: telephones with their extensions, services such as 119, 95588 and 12306."""

from __future__ import annotations

import re

from ..spans import span
from .numbers import AMOUNT, by_digits, in_groups

_SERVICE = r"(?:11[0-9]|12[02]|12[13]\d{2}|9[56]\d{3,4}|100(?:86|10|00|01|50)|1[02]0\d{2}|315)"
_DIAL = "(?:(?<=致電)|(?<=撥打)|(?<=拨打)|(?<=拨)|(?<=致电)|(?<=呼叫)|(?<=拨打了)|(?<=拨了))"
_CALL = "(?:(?<=打)|(?<=打了)|(?<=叫)|(?<=叫了)|(?<=喊)|(?<=联系)|(?<=咨询)|(?<=给)|(?<=按))"
_AFTER = (
    "报警|急救|火警|匪警|救护车|消防|热线|市民热线|电话|客服|来电|平台|短信|出警|指挥中心|调度|打来|接线|"
    "投诉|专线"
)
# These are no amounts even where nothing says that they are called.
_KNOWN = r"(?:12306|123(?:15|45|33|66|20|21|28|48|55|56|58|78|80|88)|100(?:86|10)|955\d\d)"
_NO_AMOUNT = rf"(?!\d|\.\d|\s?(?:{AMOUNT}))"
_KEYS = {"*": "星", "#": "井"}
_EXTENSION = (
    r"(?:\s?(?:转|分机|-)\s?(?P<extension>\d{1,6})(?!\d|号|个)"
    r"|\s?[(（](?:转|分机)\s?(?P<bracketed>\d{1,6})[)）])?"
)
# A mobile number, one of a land line, one of a service.
_PHONE = re.compile(
    r"(?:(?<!\d)(?:\+?86[\s-]?)?1[3-9]\d[\s-]?\d{4}[\s-]?\d{4}(?!\d)"
    r"|(?<![\d-])[(（]?0\d{2,3}[)）\s-]{1,2}\d{3,4}[\s-]?\d{4}(?!\d)|(?<![\d-])0\d{9,11}(?![\d-])"
    rf"|(?<![\d-])[48]00-?\d{{3,4}}-?\d{{3,4}}(?!\d)){_EXTENSION}(?![\d-])"
)
# One number of those in a list: 拨打119、120.
_ONE = re.compile(r"\d+(?:[\s-]\d+)*")


def _phone(match: re.Match[str]) -> str:
    kind = "bracketed" if match["bracketed"] else "extension"
    extension = match[kind]
    number = match.string[match.start() : match.start(kind)] if extension else match[0]
    said = ("加" if number.startswith("+") else "") + in_groups(number)
    return f"{said}转{by_digits(extension)}" if extension else said


def _groups(match: re.Match[str]) -> str:
    return _ONE.sub(lambda one: in_groups(one[0]), match[0])


CALLS = (
    span("telephones", _PHONE, _phone),
    span(
        "telephones abroad",
        r"(?<![A-Za-z\d)])\+\d{1,3}(?:[\s-]\d{2,12}){1,4}(?![\d-])",
        lambda match: f"加{in_groups(match[0])}",
    ),
    span(
        "numbers that are dialled",
        rf"{_DIAL}\s?\d{{3,12}}(?:\s\d{{3,4}}){{0,2}}(?:[、或]\d{{3,12}}){{0,6}}{_NO_AMOUNT}",
        _groups,
    ),
    span("services that are called", rf"{_CALL}{_SERVICE}{_NO_AMOUNT}", _groups),
    span("services", rf"(?<![\d.]){_SERVICE}(?=\s?(?:{_AFTER}))", _groups),
    span(
        "services that all know",
        rf"(?<![\d.,:/$¥A-Za-z·约近超达共-]){_KNOWN}(?![,:/-]\d|%){_NO_AMOUNT}",
        _groups,
    ),
    span(
        "keys of a telephone",
        r"(?<![A-Za-z\d*])\*\d{2,6}(?:\*\d{1,20}){0,3}#"
        r"|(?<![A-Za-z\d.,-])\d{3,12}#(?![A-Za-z\d\u4e00-\u9fff])",
        lambda match: "".join(_KEYS.get(key) or by_digits(key) for key in match[0]),
    ),
    span("services alone", r"\A(?=\d)(?:11[09]|12[02]|114)\Z", _groups),
)
