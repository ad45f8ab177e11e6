"""Read dates and times of day in Chinese."""

from __future__ import annotations

import re

from ..numbers import chinese_digits, chinese_number
from ..readers import Rule, rewrite

_MONTH = r"(?P<month>0?[1-9]|1[0-2])"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?P<year>(?:1\d|20)\d\d)"
_BEFORE, _AFTER = r"(?<![\d./·-])", r"(?![\d./·-]|\s?[=%])"
_HALVES = {"a": "上午", "p": "下午"}


def _date(match: re.Match[str]) -> str:
    found = match.groupdict()
    year = f"{chinese_digits(found['year'])}年" if found.get("year") else ""
    month = f"{_small(found['month'])}月" if found.get("month") else ""
    return year + month + (f"{_small(found['day'])}日" if found.get("day") else "")


def _month_and_day(match: re.Match[str]) -> str:
    day = f"{_small(match['day'])}{match['name']}" if match["day"] else ""
    return f"{_small(match['month'])}月{day}"


def _small(number: str) -> str:
    return chinese_number(str(int(number)))


def _years(match: re.Match[str]) -> str:
    return re.sub(r"\d+", lambda year: chinese_digits(year[0]), match[0])


def _era(match: re.Match[str]) -> str:
    era = "公元前" if match["era"][0] in "bB" else "公元"
    year = chinese_digits(match["year"])
    return f"{era}{year}年{match['rest'] or ''}"


def _time(match: re.Match[str]) -> str:
    """Return a time of day; 2:02 is 两点零二分. What can be no time is a score or a ratio."""
    hour, minute, second = int(match["hour"]), match["minute"], match["second"]
    if hour > 24 or int(minute) > 59 or int(second or 0) > 59:
        return match[0].replace(":", "比")
    said = f"{'两' if hour == 2 else chinese_number(str(hour))}点"
    if second:
        return f"{said}{_sixtieth(minute)}分{_sixtieth(second)}秒"
    return said if minute == "00" else f"{said}{_sixtieth(minute)}分"


def _sixtieth(number: str) -> str:
    zero = "零" if number[0] == "0" and number != "00" else ""
    return zero + _small(number)


_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?![\d:])"
_CONTESTS = "比分|战平|领先|落后|大胜|险胜|战胜|击败|获胜|取胜|告负|惜败|不敌|逆转|夺冠|打平|平局"
_DATES: list[Rule] = [
    (
        re.compile(rf"{_BEFORE}{_YEAR}(?P<sign>[./·-]){_MONTH}(?P=sign){_DAY}{_AFTER}"),
        _date,
    ),
    (re.compile(rf"{_BEFORE}{_YEAR}[/.-](?P<month>0[1-9]|1[0-2]){_AFTER}"), _date),
    (re.compile(rf"{_BEFORE}{_MONTH}(?P<sign>[./-]){_DAY}(?P=sign){_YEAR}{_AFTER}"), _date),
    (re.compile(rf"{_BEFORE}(?P<month>0[1-9]|1[0-2])[/.-]{_YEAR}{_AFTER}"), _date),
    (re.compile(rf"{_BEFORE}(?P<year>\d\d)/{_MONTH}/{_DAY}{_AFTER}"), _date),
    (
        re.compile(rf"{_BEFORE}(?P<month>0[1-9])[./-](?P<day>0[1-9]|[12]\d|3[01]){_AFTER}"),
        _date,
    ),
    (
        re.compile(
            r"(?<![\dA-Za-z])(?P<year>\d{1,4})年?(?P<rest>\d{1,2}月)?\s?"
            r"(?P<era>ad|AD|a\.d\.|A\.D\.|bce?|BCE?|b\.c\.|B\.C\.)(?![A-Za-z])"
        ),
        _era,
    ),
    (
        re.compile(r"((?:1\d|20)\d\d)([-–—~～至到])(?=(?:1\d|20)\d\d年)"),
        lambda m: chinese_digits(m[1]) + (m[2] if m[2] in "至到" else "到"),
    ),
    # 1000年前 is a count.
    (
        re.compile(
            r"(?<![\d.])(?<![约近过上逾])(?![1-9]\d?00年(?:[前间来]|的?历史|以[前来]))"
            r"(?:(?<=公元)|(?<=公元前)|(?<=纪元)|(?=[12]\d{3}年))\d{1,4}年"
        ),
        _years,
    ),
    (
        re.compile(
            # 618年 at the beginning of a clause is a year; elsewhere 276年 is a time.
            r"(?<![^于在自从至到，。；（、\s])[1-9](?:\d[1-9]|[1-9]0)年(?![前后间来以之多的])"
            r"|(?<!\d)\d\d年(?=0?\d{1,2}月)"
        ),
        _years,
    ),
    (
        re.compile(r"(?<!\d)(?:[5-9][05]|0[05])(?=后(?![面边来天续]))"),
        lambda m: chinese_digits(m[0]),
    ),
    (
        re.compile(rf"(?<![\d.]){_MONTH}月(?:{_DAY}(?P<name>[日号]))?"),
        _month_and_day,
    ),
    (re.compile(rf"(?<![\d.]){_DAY}(?=[日号](?![本线]))"), lambda match: _small(match["day"])),
    # Days with a name: 5·12, 9·11, 双11.
    (
        re.compile(r"(?<![\d·])(\d{1,2})·(\d{1,2})(?![\d·])"),
        lambda match: chinese_digits(match[1] + match[2]),
    ),
    (re.compile(r"(?<=双)1[12]"), lambda match: chinese_number(match[0])),
]
_TIMES: list[Rule] = [
    (re.compile(r"(?<=\d)：(?=\d)"), ":"),
    (
        re.compile(r"(?<![\d:])(\d{1,2}(?::\d{2})?)\s?([ap])\.?m\b\.?", re.IGNORECASE | re.ASCII),
        lambda match: f"{_HALVES[match[2].lower()]}{match[1]}",
    ),
    (
        re.compile(r"((?:上午|下午)\d{1,2})(?![\d:点时])"),
        lambda match: f"{match[1]}点",
    ),
    (
        re.compile(rf"(\d{{1,3}}):(\d{{1,3}})(?=[^\d，。:]{{0,2}}(?:{_CONTESTS}))"),
        r"\1比\2",
    ),
    (re.compile(rf"((?:{_CONTESTS})[^\d，。]{{0,4}}\d{{1,3}}):(\d{{1,3}})(?![\d:])"), r"\1比\2"),
    (re.compile(rf"(?<![\d:.]){_CLOCK}"), _time),
    (re.compile(r"(?<=\d):(?=\d)"), "比"),
    (re.compile(r"(?<=\d[点时])0(?=[1-9](?!\d))"), "零"),
    (re.compile(r"(?<![\d.])0(?=\d[点时](?:$|[^\d]))"), ""),
]


def read_dates(text: str) -> str:
    """Return ``text`` with dates and years as words: 2024年05月03日 is 二零二四年五月三日."""
    return rewrite(text, _DATES)


def read_times(text: str) -> str:
    """Return ``text`` with times of day and scores as words: 下午3:30 is 下午三点三十分."""
    return rewrite(text, _TIMES)
