"""Two numbers against each other: ratios (1:20), scores (3-1), points (87/100), blood pressure."""

from __future__ import annotations

import re

from ..number_words import chinese_number
from ..spans import span
from .numbers import AMOUNT, NUMBER, numbers_said, spoken

_COLON = "[:：∶]"
_ALONE, _END = r"(?<![A-Za-z\d./-])(?<!\d[:：∶])", r"(?![\d:：∶-]*\d|\.\d)"
# A space on one side alone divides: "MD5: 77".
_TO = rf"(?:{_COLON}|\s{_COLON}\s)"
_PART = r"\d{1,3}(?:,\d{3}){1,3}|\d{1,9}(?:\.\d{1,4})?"
_RATIO = rf"(?P<pair>(?:{_PART})(?:{_TO}(?:{_PART})){{1,4}})"
_PAIR = rf"(?P<pair>\d{{1,3}}\s?{_COLON}\s?\d{{1,3}})"
_OF_RATIOS = (
    "比例尺?|比率|配比|比值|赔率|占比|[长宽高深信噪男女师生性别屏之]比|对比度|兑水|稀释|勾兑|混合|"
    "按照?"
)
_IN_RATIO = (
    "比例|比率|配比|比值|赔率|概率|几率|稀释|勾兑|兑|混合|混匀|配制|调配|调制|缩放|画幅|宽屏|画面|"
    "屏|显示|模型|地图|地形图|图纸"
)
_BEATS = (
    "战平|领先|落后|大胜|险胜|完胜|小胜|战胜|击败|力克|获胜|取胜|告负|惜败|不敌|负于|输给|逆转|反超|扳平|"
    "夺冠|打平|平局|横扫|淘汰|落败|惨败|大败|败北|爆冷|过关|收场|告终|言和|绝杀|轻取|零封|卫冕|客胜|主胜|胜出|赢下|拿下"
)
_SCORES = rf"战绩|大比分|总比分|比分|局分|{_BEATS}"
_BEATS_AT_ONCE = (
    "胜(?![任率])|负(?![责荷担债面极数离值电])|赢|输(?![入出送])|(?<!失)败|平(?![方米均时台安常])"
)
_TEAMS = "中国|日本|韩国|巴西|德国|法国|英国|美国|意大利|西班牙|阿根廷|荷兰|葡萄牙|英格兰"
# What shows that two numbers in a sentence are a score.
_CONTESTS = re.compile(
    rf"{_SCORES}|{_BEATS_AT_ONCE}|(?:{_TEAMS})\s?\d{{1,3}}[-–]|连[胜败]|[决复预季]赛|射[门正]|控球|角球|(?<![\d-])(\d)-\1(?![\d-])|[单双]打|混双|[男女国][单双足篮排]|首节|半场|"
    "[主客]场|(?<!部)队(?!列|伍)"
)
_LOOK_BACK = 40  # characters; about a sentence


def _said(match: re.Match[str]) -> str:
    """Return the numbers with 比 between them, behind the word that the match begins with."""
    numbers = re.split(rf"\s?{_COLON}\s?", match["pair"])
    word = match.string[match.start() : match.start("pair")]
    return word + "比".join(map(chinese_number, numbers))


def _no_clock(match: re.Match[str]) -> str | None:
    """Return the words of what can be no time of day: 16:9, 3:0, 1:2:3, 78:96, 1:500."""
    first, *others = re.split(rf"\s?{_COLON}\s?", match["pair"])
    is_clock = re.fullmatch(r"[01]?\d|2[0-4]", first) and len(others) < 3
    if is_clock and all(re.fullmatch(r"[0-5]\d", part) for part in others):
        return None
    return _said(match)


def _speaks_of_contests(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()]
    behind = match.string[match.end() : match.end() + _LOOK_BACK]
    sentence = re.split("[。！？\n]", before)[-1] + match[0] + re.split("[。！？\n]", behind)[0]
    return _CONTESTS.search(sentence) is not None


def _scores(match: re.Match[str]) -> str | None:
    """Return scores with 比; of other pairs a list without one that goes down is of ranges."""
    pairs = [tuple(map(int, pair)) for pair in re.findall(r"(\d+)\D(\d+)", match[0])]
    goes_down = len(pairs) > 1 and any(first > second for first, second in pairs)
    if not goes_down and not _speaks_of_contests(match):
        return None
    return numbers_said(re.sub("[-–]", "比", match[0]))


def _list_with_colons(match: re.Match[str]) -> str | None:
    """Return the scores of sets where the sentence before speaks of a match; others are times."""
    if not _speaks_of_contests(match):
        return None
    return numbers_said(re.sub("[:：]", "比", match[0]))


def _pressure(match: re.Match[str]) -> str | None:
    high, low = match["high"], match["low"]
    before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()]
    is_blood = match["unit"] or re.search("血压|BP", re.split("[。！？\n]", before)[-1])
    if not is_blood or int(high) <= int(low):
        return None
    high, low = (
        spoken(match[side]) + (f"到{spoken(match[f'{side}_'][1:])}" if match[f"{side}_"] else "")
        for side in ("high", "low")
    )
    return f"{high}，{low}{'毫米汞柱' if match['unit'] else ''}"


# Before dates: 12/3/7 behind these is none.
RECORDS = (
    span(
        "records of a game",
        r"(?P<word>(?:KDA|战绩)(?:为|是|[:：\s]){0,2})(?P<row>\d{1,3}(?:/\d{1,3}){2})(?![\d/.-])",
        lambda match: match["word"] + "杠".join(map(chinese_number, match["row"].split("/"))),
    ),
)
RATIOS = (
    span(
        "blood pressure",
        r"(?<![\d/.])(?P<high>[6-9]\d|[12]\d\d)(?P<high_>[-~～]\d{2,3})?\s?/\s?"
        r"(?P<low>[3-9]\d|1[0-5]\d)(?P<low_>[-~～]\d{2,3})?"
        r"(?P<unit>\s?(?:mmHg|毫米汞柱))?(?![\d/.%])",
        _pressure,
    ),
    span(
        "ratios behind their word",
        rf"(?:{_OF_RATIOS}|(?<==)|(?<== ))(?:为|是|约|达|高达|约为|：|:|\s){{0,2}}{_RATIO}{_END}",
        _said,
    ),
    span("ratios before their word", rf"{_ALONE}{_RATIO}(?=\s?的?(?:{_IN_RATIO}))", _said),
    # 以 stands before how a thing ended, and 在 or 从 before when.
    span(
        "scores behind their word",
        rf"(?:(?:{_SCORES})[^\d，。；：:！？\n]{{0,5}}[:：]?|(?<![可所加予难足得])以\s?)"
        rf"{_PAIR}{_END}(?!\s?(?:{AMOUNT}))",
        _said,
    ),
    span(
        "scores before their word",
        rf"{_ALONE}{_PAIR}(?=[^\d，。；、:：！？\n天年月周日人个次分岁]{{0,5}}(?:{_SCORES})|(?:{_BEATS_AT_ONCE}))",
        _said,
    ),
    span(
        "scores with a dash",
        r"(?<![A-Za-z\d./第图表式$¥-])(?<!\d[:：])\d{1,3}[-–]\d{1,3}(?:[、,，/(（]\s?\d{1,3}[-–]\d{1,3}){0,8}"
        rf"(?![A-Za-z\d./:：°-]|\s?[℃%亿万至到节]|\s?(?:{AMOUNT})(?<!平局))",
        _scores,
    ),
    span(
        "lists of scores with colons",
        r"(?<![\d.:：-])\d{1,2}[:：]\d{1,2}(?:[、,，]\s?\d{1,2}[:：]\d{1,2}){1,8}(?![\d.:：-])",
        _list_with_colons,
    ),
    span(
        "ratios of letters",
        r"(?<![A-Za-z:：])[A-Za-z](?:[:：][A-Za-z]){1,4}(?=\s?[=＝])",
        lambda match: re.sub("[:：]", "比", match[0]),
    ),
    span("ratios", rf"{_ALONE}{_RATIO}{_END}", _no_clock),
    span(
        "so much of so many",
        rf"(?<![\d/.])(?P<part>{NUMBER})\s?/\s?(?P<all>{NUMBER})\s?(?=[KMGT]B(?![A-Za-z]))",
        lambda match: f"{chinese_number(match['part'])}，{spoken(match['all'])}",
    ),
    span(
        "points of a hundred",
        rf"(?<![\d/.])(?P<above>{NUMBER})\s?/\s?(?P<below>10|100|120|150)(?=$|[^\d/.A-Za-z%]|\.\s|\.$)",
        lambda match: f"{chinese_number(match['below'])}分之{chinese_number(match['above'])}",
    ),
)
