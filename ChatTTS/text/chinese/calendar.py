"""Dates, years and what lies between two of them: 2024-05-03, 公元前221年, 2021/22赛季."""

from __future__ import annotations

import re

from ..number_words import chinese_digits, chinese_number
from ..spans import span
from .clock import CLOCK, say_clock, small
from .numbers import AMOUNT, digit_by_digit, numbers_said

_MONTH = r"(?P<month>0?[1-9]|1[0-2])"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?P<year>(?:1\d|20)\d\d)"
_FULL = rf"{_YEAR}(?P<sign>[./·-]){_MONTH}(?P=sign){_DAY}"
_BEFORE, _AFTER = r"(?<![\d./·-])", r"(?![\d./·-]|\s?[=%])"
_BETWEEN = "[-–—~～至到]"
# What a year stands before, so that it is one without 年.
_OF_YEARS = (
    "上半年|下半年|[前一二三四]季|前三季|Q[1-4]|H[12]|财年|财政年度|学年度?|年度|赛季|年|届|级|款|版|新版|年版|财报|年报|半年报|季报|春夏|秋冬|春节|世界杯|奥运|"
    "欧洲杯|亚运|世博|全运|高考|中考|国考|考研"
)
_CENTURY = "(?:19|20)"
_TO = r"\s?[-–—~～至到]\s?"
# What stands behind a day that is written like a part or a decimal: 12/31前, 6.18大促.
_OF_DAYS = (
    r"\s?(?:前(?![面列台端])|之前|以前|起(?![点伏])|截止|开始|开[抢售业播学]|上[线映市]|发[售货布]|[送到][达货]|当[天日]|凌晨|早上|上午|中午|"
    r"下午|晚上|晚\d|[(（](?:周|星期)?[一二三四五六日][)）]|\d{1,2}(?:[:：]\d\d|点))"
)
_OF_FEASTS = (
    rf"(?:{_OF_DAYS}|[一二三四五六七八九十]天|放假|假期|大促|促销|活动|期间|购物节|"
    "[妇劳儿][女动童]节|国庆|元旦|圣诞|中秋|春节)"
)


# Days, months and years that are said one after the other, by rank.
_ONE_DATE = {
    "dates": rf"{_BEFORE}{_FULL}{_AFTER}",
    "months of a year": rf"{_BEFORE}{_YEAR}[/.-](?P<month>0[1-9]|1[0-2]){_AFTER}",
    "dates with the year last": rf"{_BEFORE}{_MONTH}(?P<sign>[./-]){_DAY}(?P=sign){_YEAR}{_AFTER}",
    "months before their year": rf"{_BEFORE}(?P<month>0[1-9]|1[0-2])[/.-]{_YEAR}{_AFTER}",
    "dates with a short year": rf"{_BEFORE}(?P<year>\d\d|1[01]\d)/{_MONTH}/{_DAY}{_AFTER}",
    "months behind a word": (
        rf"(?:(?<=[至到于自从保期（(])|(?<=[（(至到期][:：])){_YEAR}\.{_MONTH}"
        r"(?=$|[，。、；）),;起止入毕后前发]|至今|\s)"
    ),
    "days of a month": (
        rf"{_BEFORE}(?P<month>0[1-9]|1[0-2](?=[/-]0))[./-](?P<day>0[1-9]|[12]\d|3[01]){_AFTER}"
    ),
    "days with a stroke": (
        r"(?<![\d./-])(?:(?<=[请将定已应须拟会可]于)|(?<=截止)|(?<=截至)|(?<=[周期][一二三四五六日])|"
        rf"(?=\d{{1,2}}/\d{{1,2}}{_OF_DAYS})){_MONTH}/{_DAY}(?![\d./-])"
    ),
    "days in brackets": rf"(?<=[周期][一二三四五六日][(（]){_MONTH}[./]{_DAY}(?=[)）])",
    "days before a time of day": rf"(?<![\d./-]){_MONTH}-{_DAY}(?=\s\d{{1,2}}[:：]\d\d)",
}

# By rank as well.
_TWO_YEARS = {
    "years to years": (
        rf"(?<![\d./-])(?P<first>{_CENTURY}\d\d|1\d\d\d)\s?(?P<between>{_BETWEEN}|/)\s?"
        rf"(?P<last>(?:1\d|20)\d\d|\d\d)(?=\s?(?:{_OF_YEARS}))"
    ),
    "seasons": r"(?<![\d./-])(?P<first>\d\d)(?P<between>[-/])(?P<last>\d\d)(?=赛季|财年|学年)",
    "years to years alone": (
        rf"(?<![\d./$¥-])(?P<first>{_CENTURY}\d\d)(?P<between>[-–—])(?P<last>{_CENTURY}\d\d)"
        rf"(?![\d./-]|\s?(?:{AMOUNT}|[A-Za-z]))"
    ),
    "years of a life": (
        r"(?<=[（(])(?P<first>1\d{3}|20\d\d)(?P<between>[-–—]{1,2})"
        r"(?P<last>1\d{3}|20\d\d)(?=[)）])"
    ),
}


def _date(match: re.Match[str]) -> str:
    found = match.groupdict()
    year = f"{chinese_digits(found['year'])}年" if found.get("year") else ""
    month = f"{small(found['month'])}月" if found.get("month") else ""
    return year + month + (f"{small(found['day'])}日" if found.get("day") else "")


def _month_and_day(match: re.Match[str]) -> str:
    day = f"{small(match['day'])}{match['name']}" if match["day"] else ""
    return f"{small(match['month'])}月{day}"


def _years(match: re.Match[str]) -> str | None:
    """Return 二零二一到二零二二 for 2021-22 and 2021-2022; the second one is the later one."""
    first, last = match["first"], match["last"]
    if len(first) == len(last) and int(first) > int(last):
        return None
    between = match["between"] if match["between"] in ("至", "到") else "到"
    return f"{chinese_digits(first)}{between}{chinese_digits(last)}"


def _months(match: re.Match[str]) -> str:
    first, last = (
        f"{chinese_digits(year)}年{small(month)}月"
        for year, month in re.findall(r"(\d{4})\D(\d{1,2})", match[0])
    )
    return f"{first}到{last}"


def _era(match: re.Match[str]) -> str:
    era = "公元前" if match["era"][0] in "bB" else "公元"
    month = f"{small(match['month'])}月" if match["month"] else ""
    return f"{era}{chinese_digits(match['year'])}年{month}"


def _timestamp(match: re.Match[str]) -> str:
    return _date(match) + say_clock(match) + _zone(match["zone"] or "")


def _zone(written: str) -> str:
    """Return 东八区 for +08:00 and 世界时 for Z; a zone of odd minutes has them behind it."""
    if written in ("", "Z"):
        return "世界时" if written else ""
    hour, minute = int(written[1:3]), written[-2:]
    side = "东" if written[0] == "+" else "西"
    odd = {"00": "", "30": "半"}.get(minute, f"{small(minute)}分")
    return f"{side}{chinese_number(str(hour))}区{odd}" if hour else "零时区"


def _before_era(match: re.Match[str]) -> str:
    first, last = chinese_digits(match["first"]), match["last"]
    year = "年" if match["year"] or match["year_"] else ""
    return f"前{first}{year}" + (f"到{match['era']}{chinese_digits(last)}{year}" if last else "")


def _dotted_days(match: re.Match[str]) -> str:
    found = match.groupdict()
    year = f"{chinese_digits(found['year_'])}年" if found.get("year_") else ""
    day = f"到{year}{small(found['month_'])}月{small(found['day_'])}日" if found["day_"] else ""
    return _date(match) + day


DATES = (
    span(
        "timestamps",
        rf"(?<![\d./·-]){_FULL}(?:T|\s{{1,2}}){CLOCK}(?P<zone>Z(?![A-Za-z])|[+-]\d\d:?\d\d)?(?![\d:])",
        _timestamp,
    ),
    span(
        "dates to dates",
        rf"{_BEFORE}{_FULL}{_TO}(?:(?P<year_>(?:1\d|20)\d\d)(?P=sign))?"
        rf"(?P<month_>0?[1-9]|1[0-2])(?P=sign)(?P<day_>0?[1-9]|[12]\d|3[01]){_AFTER}",
        _dotted_days,
    ),
    span(
        "months to months",
        rf"(?<![\d./-]){_CENTURY}\d\d[./](?:0?[1-9]|1[0-2])\s?{_BETWEEN}\s?{_CENTURY}\d\d[./](?:0?[1-9]|1[0-2])(?![\d./-])",
        _months,
    ),
    *(span(kind, pattern, _date) for kind, pattern in _ONE_DATE.items()),
    span("years in brackets", r"(?<=[(（])[1-9]\d{2}(?=年[)）])", digit_by_digit),
    span(
        "days with a dot",
        rf"(?:(?<![\d./$¥-])|(?<=:\d\d-))(?:(?<=限)|(?<=[时期]间)|(?<=[时期]间[:：])|(?<=日期[:：])|(?<=有效期)|(?<=档期)|(?<=活动)"
        rf"|(?=\d{{1,2}}\.\d{{1,2}}(?:{_TO}\d{{1,2}}\.\d{{1,2}})?{_OF_FEASTS})){_MONTH}\.{_DAY}"
        rf"(?:{_TO}(?P<month_>0?[1-9]|1[0-2])\.(?P<day_>0?[1-9]|[12]\d|3[01]))?(?![\d.]|\s?(?:{AMOUNT}|[A-Za-z]))",
        _dotted_days,
    ),
    span(
        "days to days with strokes",
        rf"(?<![\d./-]){_MONTH}/{_DAY}\s?[-–—~～]\s?(?P<month_>0?[1-9]|1[0-2])/(?P<day_>0?[1-9]|[12]\d|3[01])(?![\d./-]|\s?[=%])",
        lambda match: f"{_date(match)}到{small(match['month_'])}月{small(match['day_'])}日",
    ),
    span(
        "eras",
        r"(?<![\dA-Za-z])(?P<year>\d{1,4})年?(?:(?P<month>\d{1,2})月)?\s?"
        r"(?P<era>ad|AD|a\.d\.|A\.D\.|bce?|BCE?|b\.c\.|B\.C\.)(?![A-Za-z])",
        _era,
    ),
    span(
        "quarters",
        rf"(?<!\d){_YEAR}年?Q(?P<quarter>[1-4])(?!\d)",
        lambda match: f"{chinese_digits(match['year'])}年第{chinese_number(match['quarter'])}季度",
    ),
    *(span(kind, pattern, _years) for kind, pattern in _TWO_YEARS.items()),
    span(
        "years before the era",
        r"(?:(?<=公元)|(?<=[（(]))前(?P<first>\d{1,4})(?P<year>年?)"
        r"(?:\s?[-–—~～－]{1,2}\s?(?P<era>(?:公元)?前?)(?P<last>\d{1,4})(?P<year_>年?))?(?![\d.])",
        _before_era,
    ),
    span(
        "years of a dynasty or an era",
        r"(?<=[朝代国汉唐宋元明清隋周秦晋][（(])\d{1,4}[-–—～~]{1,2}\d{1,4}(?=年?[)）])"
        r"|(?:(?<=公元)|(?<=公元前)|(?<=[（(，、；]前))\d{1,4}[-–—~～至到]\d{1,4}(?=年)",
        lambda match: "到".join(map(chinese_digits, re.findall(r"\d+", match[0]))),
    ),
    span(
        "decades",
        r"(?<![\d.])(?P<decade>(?:1[5-9]|20)\d0)s(?![A-Za-z])",
        lambda match: f"{chinese_digits(match['decade'])}年代",
    ),
    # 1000年前 is a count.
    span(
        "years",
        r"(?<![\d.])(?<![约近过上逾])(?![1-9]\d?00年(?:[前间来]|的?历史|以[前来]))"
        r"(?:(?<=公元)|(?<=公元前)|(?<=纪元)|(?=[12]\d{3}年))\d{1,4}(?=年)",
        digit_by_digit,
    ),
    span(
        "years of a thing",
        rf"(?<![\d.,:/$¥-]){_CENTURY}\d\d(?=\s?(?:{_OF_YEARS}))(?!年)",
        digit_by_digit,
    ),
    # 618年 at the beginning of a clause is a year; elsewhere 276年 is a time.
    span(
        "short years",
        r"(?<![^于在自从至到，。；（、\s])[1-9](?:\d[1-9]|[1-9]0)年(?![前后间来以之多的])"
        r"|(?<=\d年[-–—至到])[1-9](?:\d[1-9]|[1-9]0)年(?![前后间来以之多的])"
        r"|(?<!\d)\d\d年(?=0?\d{1,2}月)"
        r"|(?<![\d.了过近约])[2-9]\d年(?=出生|生[的人]|入[学伍党职]|毕业|[款版](?!本))"
        r"|(?<=[是辆台部我你他她属版])[5-9]\d年(?=的(?!历史|时[间光]|岁月|经[验历]|老|努力|奋斗|婚姻))"
        r"|(?<![\d.])(?:0\d|[6-9]\d)(?=级|届|版(?!本))",
        lambda match: numbers_said(match[0], chinese_digits),
    ),
    span(
        "generations",
        r"(?<![\d:：.])(?:[5-9][05]|0[05])(?=(?:[、和及/-](?:[5-9][05]|0[05]))?后(?![面边来天续]))",
        digit_by_digit,
    ),
    span("months", rf"(?<![\d.]){_MONTH}月(?:{_DAY}(?P<name>[日号]))?", _month_and_day),
    # Days with a name: 5·12, 9·11, 双11.
    span("days with a name", r"(?<![\d·])\d{1,2}·\d{1,2}(?![\d·])", digit_by_digit),
)
