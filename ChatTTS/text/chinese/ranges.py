"""Signs between two numbers, dates or measures, and before a number: 到, 比, 减, 负, 约, 大于."""

from __future__ import annotations

import re

from ..spans import span
from .numbers import NUMBER

_LOOK_BACK = 12  # characters: the number before a dash
_NUMBER_BEFORE = re.compile(r"(?<![\d.,-])\d{1,4}(?:\.\d{1,4})?\Z")
_AMOUNT_NEXT = r"(?=\s?[-−]?[A-Z]{0,3}[$€£¥₩₹₽฿₫]?\s?\d)"
# Words that end in a number of a series: 歼-20, 东风-41, 长征-5. It is no negative one.
_SERIES = (
    "(?:(?<=[歼轰运直教强伊米苏图])|(?<=东风|长征|神舟|嫦娥|天宫|天舟|巨浪|红旗|鹰击|霹雳|火星|"
    "金星|风云|北斗|海燕|实践|高分|联盟|土星|猎鹰|翼龙|彩虹|攻击|波音|空客))"
)


def _dash(match: re.Match[str]) -> str:
    """Return 到, or 比 for a score: 3-2 goes down, and 0-0 goes nowhere."""
    before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()]
    first = _NUMBER_BEFORE.search(before)
    second = match["second"]
    if first is None or second is None or "-" not in match[0]:
        return "到"
    return "比" if float(first[0]) >= float(second) else "到"


RANGES = (
    span("series", rf"{_SERIES}-(?=\d)", ""),
    # LPR-20BP: what is taken off has a unit.
    span(
        "differences of terms",
        r"(?<=[A-Z])\s?[-−]\s?(?=\d{1,4}(?:\.\d{1,4})?\s?(?:[Bb][Pp]s?(?![A-Za-z])|%|个?基点))|"
        r"(?<=\d)\s?-\s?(?=\d{1,9}\s?=)|(?<=\^\d)\s?-\s?(?=\d)|(?<=\d)-(?=\d{1,4}[abcxyz](?![A-Za-z]))"
        r"|(?:(?<=(?<![A-Za-z\d])[a-z])|(?<=\d[abcnxyz]))\s?-\s?(?=\d)|(?:(?<=\^\d)|(?<=[\da-z]\)))-(?=[\da-z(])"
        r"|(?<=\dY)-(?=\d{1,2}Y)"
        r"|(?<=(?<![A-Za-z])[a-z])(?:-|\s-\s)(?=[a-z](?![A-Za-z]))",
        "减",
        without_digits=True,
    ),
    span("numbers of sites", r"(?<=\d号)-(?=\d{1,2}(?![\d.号日]))", "杠"),
    span(
        "spans of dates and measures",
        r"(?:(?<=\d[日号月年点时分秒天周元米克度岁%℃万亿千百])|(?<=\d:\d\d)|(?<=\d：\d\d)|(?<=°C)|(?<=\d[kKwWgLhst])|(?<=\d(?:cm|mm|km|kg|mg|ml|mL|GB|MB|Hz|kW|dB)))"
        r"\s?[-–—~～]\s?(?=[$¥]?\d)",
        "到",
    ),
    # 3月底-4月初
    span(
        "spans from the end of a month",
        r"(?<=[月年][底初末中])\s?[-–—~～]\s?(?=\d)|(?<=旬)\s?[-–—~～]\s?(?=\d)",
        "到",
    ),
    span("plus or minus", r"\+/[-−]", "正负"),
    span("tildes", r"(?:(?<=[\d%])\s?|(?<=[A-Za-z°]))[~～]\s?(?=[-+]?[$¥A-Z]?\d)", "到"),
    span("pluses", r"(?<=[~～至到])\+(?=\d)", "正"),
    span("strokes before a minus", r"(?<=\d)/(?=-\d)", "到"),
    span("strokes before a name", r"(?<=[\u4e00-\u9fff])[-−](?=0\d)", "杠"),
    # 苯基-2-丙酮
    span(
        "places in a molecule",
        r"(?<=[基烯烷炔酰氧氮硫苯])-(?=\d{1,2}-[\u4e00-\u9fff])|(?<=基-\d)-(?=[\u4e00-\u9fff])",
        "杠",
    ),
    span("grades", r"(?<=(?<![A-Za-z])[A-D])-(?=$|[评级，。、；])", "减"),
    span(
        "minuses",
        rf"(?<![A-Za-z\d)）%^])[-−](?={NUMBER})|(?<=[=(（,，当即为是于得或])-(?=[a-zα-ω](?![A-Za-z]))",
        "负",
        without_digits=True,
    ),
    span(
        "dashes", r"(?<=\d)\s?[-–—]\s?(?=(?P<second>\d{1,4}(?:\.\d{1,4})?)(?![\d-]|\.\d)|\d)", _dash
    ),
    span("about", rf"(?<![\dA-Za-z%])[~～≈]\s?{_AMOUNT_NEXT}", "约"),
    span("less", rf"\s?<\s?{_AMOUNT_NEXT}", "小于"),
    span("more", rf"(?<![-=<])\s?>\s?{_AMOUNT_NEXT}", "大于"),
)
