"""Times of day and lengths of time with colons: 下午3:30, 8:00 a.m., 09:15:32.5, 用时3:45."""

from __future__ import annotations

import re

from ..number_words import chinese_digits, chinese_number
from ..spans import span

_HALVES = {"a": "上午", "p": "下午"}
CLOCK = (
    r"(?P<hour>[01]?\d|2[0-4])(?:\s(?=[:：][0-5]\d(?!\d)))?[:：](?P<minute>[0-5]\d)"
    r"(?:[:：](?P<second>[0-5]\d)(?:[.,](?P<part>\d{1,9}))?)?"
)
_ALONE, _END = r"(?<![\d.])(?<!\d[:：])", r"(?![\d:：])"
_MARATHONS = "半马|全马|马拉松"
_LENGTHS = f"{_MARATHONS}|时长|用时|耗时|历时|片长|成绩为?|配速|计时|倒计时|全长|净时间"


def small(written: str) -> str:
    """Return a number of two digits in words, without its leading zero."""
    return chinese_number(str(int(written)))


def sixtieth(written: str) -> str:
    """Return minutes or seconds in words: 05 is 零五."""
    return ("零" if written[0] == "0" and written != "00" else "") + small(written)


def say_clock(match: re.Match[str]) -> str:
    """Return the words for a match of ``CLOCK``; 2:02 is 两点零二分."""
    hour, minute, second = int(match["hour"]), match["minute"], match["second"]
    said = f"{'两' if hour == 2 else chinese_number(str(hour))}点"
    if second:
        part = f"点{chinese_digits(match['part'])}" if match["part"] else ""
        return f"{said}{sixtieth(minute)}分{sixtieth(second)}{part}秒"
    return said if minute == "00" else f"{said}{sixtieth(minute)}分"


def _half(match: re.Match[str]) -> str:
    hour, minute = int(match["hour"]), match["minute"]
    said = f"{'两' if hour == 2 else chinese_number(str(hour))}点"
    rest = f"{sixtieth(minute)}分" if minute and minute != "00" else ""
    return _HALVES[match["half"].lower()] + said + rest


def _length(match: re.Match[str]) -> str:
    """Return 三分四十五秒 for 3:45 and 两小时零一分零九秒 for 2:01:09."""
    parts = re.findall(r"\d+", match["length"].partition(".")[0])
    is_long = len(parts) > 2 or re.match(_MARATHONS, match["word"])
    names = ("小时", "分", "秒")[0 if is_long else 1 :][: len(parts)]
    first = "两" if parts[0] in ("2", "02") else small(parts[0])
    said = [first, *map(sixtieth, parts[1:])]
    if part := match["length"].partition(".")[2]:
        said[-1] += f"点{chinese_digits(part)}"
    return match["word"] + "".join(map("".join, zip(said, names, strict=True)))


def _marked(match: re.Match[str]) -> str | None:
    """Return 五分三十秒 for 5'30", and feet and inches for the size of a person."""
    second = match["second"] or match["bare"]
    if re.search(r"(?:身?高|尺寸)[^\d，。]{0,3}\Z", match.string[: match.start()][-6:]):
        return f"{small(match['first'])}英尺{small(second)}英寸"
    return f"{small(match['first'])}分{sixtieth(second)}秒"


def _minute(match: re.Match[str]) -> str | None:
    """Return the minute of a match; a mark that closes a quotation is none."""
    if re.search(r"(?<!\d)'", match.string[max(0, match.start() - _QUOTED) : match.start()]):
        return None
    added = f"加{small(match['added'])}" if match["added"] else ""
    return f"{small(match['first'])}{added}分钟"


def _compound(match: re.Match[str]) -> str | None:
    """Return 三天四小时 for 3d4h, of any two units or more that follow each other."""
    parts = re.findall(r"(\d+)\s?([a-z])", match[0])
    if len(parts) < 2:
        return None
    first = "两" if parts[0][0] == "2" else small(parts[0][0])
    said = [first, *(sixtieth(number) for number, _ in parts[1:])]
    return "".join(n + _UNITS_OF_TIME[unit] for n, (_, unit) in zip(said, parts, strict=True))


_UNITS_OF_TIME = {"y": "岁", "d": "天", "h": "小时", "m": "分", "s": "秒"}
_QUOTED = 12  # characters before a mark that may close a quotation
TIMES = (
    span(
        "hours and minutes in letters",
        r"(?<![A-Za-z\d.])(?=\d{1,3}[ydhm])(?:\d{1,3}y\s?)?(?:\d{1,3}d\s?)?(?:\d{1,3}h\s?)?"
        r"(?:\d{1,3}\s?(?:min|m)\s?)?(?:\d{1,3}s)?(?![A-Za-z\d])",
        _compound,
    ),
    span(
        "lengths of time",
        rf"(?P<word>(?:{_LENGTHS})(?:是|：|:|\s)?)"
        r"(?P<length>\d{1,3}(?:[:：][0-5]\d){1,2}(?:\.\d{1,3})?)'?(?![\d:：])",
        _length,
    ),
    span(
        "minutes and seconds with marks",
        r"(?<![\d.°])(?P<first>\d{1,3})\s?['′]\s?(?:(?P<second>[0-5]?\d)\s?(?:\"|″|''|′′)|(?<=\d['′])(?P<bare>[0-5]\d)(?![\d'′\"]))",
        _marked,
    ),
    span(
        "minutes of a match",
        r"(?<![\d.°A-Za-z/'′])(?P<first>\d{1,3})(?:\+(?P<added>\d{1,2}))?['′](?![\dA-Za-z'′])",
        _minute,
    ),
    span(
        "halves of the day",
        rf"(?ia){_ALONE}(?P<hour>\d{{1,2}})(?:[:：](?P<minute>\d{{2}}))?\s?(?P<half>[ap])\.?m\b\.?",
        _half,
    ),
    span(
        "times to times of another part of the day",
        r"(?<=\d[:：][0-5]\d)\s?[-–—~～]\s?(?=次日|翌日|第二天|凌晨|早上?|上午|中午|下午|晚上?)",
        "到",
    ),
    span("times of day", rf"{_ALONE}{CLOCK}{_END}", say_clock),
)
