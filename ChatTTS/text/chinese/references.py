"""Numbered parts of documents: "图5-6", "式(2-1)", "§3.12", and the years of cases and decrees."""

from __future__ import annotations

import re

from ..number_words import chinese_digits, chinese_number
from ..readers import either
from ..roman import NUMERAL, value_of
from ..spans import span
from .numbers import AMOUNT, numbers_said

# 代表, 发表, 手表 and 地图 are words of their own before an amount, which the pattern sees.
_NOUNS = (
    "附图|附表|附件|附录|插图|图表|图|表格|(?<!代)表|公式|算式|方程式?|式|例题|习题|练习题?|例|定理|引理|"
    "定义|命题|推论|性质|算法|清单|示例|实验|专栏|框"
)
_INDEX = r"(?:[A-Z][.-])?\d{1,3}(?:[.-]\d{1,3}){1,3}|[A-Z][.-]\d{1,3}"
_MEMBER = rf"(?P<open>[(（]?)(?P<index>{_INDEX})(?P<letter>[a-z]?)(?P<close>[)）]?)"
_END = rf"(?![\d.-]*\d|\s?(?:{AMOUNT}))"
_NAMED = re.compile(rf"(?P<noun>{_NOUNS})\s?{_MEMBER}{_END}", re.ASCII)
# One more behind "图2-1、" or "图2-1至": the noun stands for both.
_FURTHER = re.compile(rf"(?<=\d[、和与及或至到])(?<=-\d[、和与及或至到]){_MEMBER}{_END}", re.ASCII)
_LOOK_BACK = 16  # characters: the noun and what may stand before a further number
# GB/T 7714-2015: the number of a standard, and the year of its edition.
_STANDARD = re.compile(
    r"(?<=[A-Z])\s?(?P<number>\d{3,6}(?:\.\d{1,2})?)[-—:：]"
    r"(?P<year>(?:19|20)\d\d)(?![\d.-])"
)
_PAGE = re.compile(
    r"(?<![A-Za-z])(?:[Pp]{1,2}\.\s?|(?:(?<=[见第页])|(?<=[读看翻]到)|(?<=[课教][本材])|(?<=范围))[Pp]{1,2}\s?)"
    r"(?P<first>\d{1,4})(?:\s?[-–~～至到]\s?(?:[Pp]{1,2}\.?\s?)?(?P<last>\d{1,4}))?(?![\d.])"
)
# "2019, 42(3): 453-468": a year, a volume with its issue, and pages.
_VOLUME = re.compile(
    r"(?<![\d.])(?P<year>(?:19|20)\d\d)\s?[,，;；]\s?(?P<volume>\d{1,4})\s?"
    r"(?:[(（](?P<issue>\d{1,3})[)）]\s?)?[:：]\s?(?P<first>\d{1,6})(?:\s?[-–—]\s?(?P<last>\d{1,6}))?(?![\d.]*\d)"
)
# 第(三)项: the brackets divide nothing.
_BRACKETED = re.compile(
    r"(?<=[一二三四五六七八九级])[(（](?P<class>\d{1,2}|[一二三四五六七八九十]{1,3})[)）](?=班)|(?<=第)[(（](?P<number>\d{1,3}|[一二三四五六七八九十百]{1,5})[)）](?=[项款条目点部节章类种])"
)
_OF_ALL = re.compile(
    r"(?:(?<=第)|(?<=Day)|(?<=重试)|(?<=尝试)|(?<=步骤)|(?<=打卡)|(?<=楼层)|(?<=进度)|(?<=更新)|(?<=[Ee]poch)|(?<=[Ss]tep))\s?(?P<part>\d{1,4})/(?P<all>\d{1,4})"
    r"(?P<noun>[页章集回步轮题关次]?)(?![\d/.%])"
)
# 3-2节 goes down, so it is no range.
_SECTION_INDEX = re.compile(r"(?<![\d.-])(?P<chapter>\d{1,2})-(?P<part>\d{1,2})(?=[节節](?!课))")
_NUMBERED = {
    "No": "第{}", "NO": "第{}", "Vol": "第{}卷", "vol": "第{}卷", "Fig": "图{}", "fig": "图{}",
    "Ch": "第{}章", "Sec": "第{}节", "Eq": "式{}",
}  # fmt: skip
# "请求：1.判令被告付款；2.驳回": the dot ends no sentence.
_ITEM = re.compile(
    r"(?<![\w.)])(?P<number>\d{1,2})(?:[.．](?=[\u4e00-\u9fff])|\.\s(?=[A-Za-z\u4e00-\u9fff]))"
)
_ABBREVIATED = re.compile(
    rf"(?<![A-Za-z])(?P<noun>{either(_NUMBERED)})\.\s?(?P<number>\d{{1,4}})(?![\d.]*\d)"
)
_SECTION = re.compile(r"§\s?(?P<index>\d{1,3}(?:\.\d{1,3}){0,3})(?![\d.]*\d)")
_RULERS = "路易|亨利|查理|查尔斯|乔治|威廉|爱德华|詹姆斯|拿破仑|伊丽莎白|约翰|保罗|腓特烈|彼得"
# Behind 第 and a ruler, before the noun of a kind, and alone where no abbreviation looks like it.
_ROMAN = re.compile(
    rf"(?:(?<=第)|(?<={')|(?<='.join(_RULERS.split('|'))})){NUMERAL}(?![A-Za-z])"
    rf"|(?<=国)(?=[IV]){NUMERAL}(?=[ab]?(?![A-Za-z]))"
    rf"|(?<![A-Za-z\d])(?:{NUMERAL}(?=[类期级度型](?![恤线血号]))|(?:VI{{0,3}}|X)?I{{2,3}})(?![A-Za-z\d])"
)
_YEAR = re.compile(r"(?<=[(（〔\[])(?:19|20)\d\d(?=[)）〕\]])")


def _say_index(written: str) -> str:
    """Return 五杠六 for 5-6 and 三点十二 for 3.12: each part is a number of its own."""
    parts = re.findall(r"[A-Z]|\d+|[.-]", written)
    signs = {".": "点", "-": "杠"}
    return "".join(
        signs.get(part) or (chinese_number(part) if part.isdigit() else part) for part in parts
    )


def _named(match: re.Match[str]) -> str | None:
    if bool(match["open"]) != bool(match["close"]) and match["open"]:
        return None
    close = "" if match["open"] else match["close"]
    noun = match.groupdict().get("noun") or ""
    return noun + _say_index(match["index"]) + match["letter"] + close


def _further(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()]
    return _named(match) if re.search(rf"(?:{_NOUNS})\s?[(（]?[A-Z]?\d", before) else None


def _standard(match: re.Match[str]) -> str:
    number = numbers_said(match["number"].replace(".", "点"), chinese_digits)
    return f" {number}杠{chinese_digits(match['year'])}"


def _page(match: re.Match[str]) -> str:
    last = f"到{chinese_number(match['last'])}" if match["last"] else ""
    return f"第{chinese_number(match['first'])}{last}页"


def _volume(match: re.Match[str]) -> str:
    issue = f"第{chinese_number(match['issue'])}期，" if match["issue"] else ""
    volume = f"第{chinese_number(match['volume'])}卷，{issue}"
    return f"{chinese_digits(match['year'])}年，{volume}{_page(match)}"


def _of_all(match: re.Match[str]) -> str:
    part, every, noun = match["part"], match["all"], match["noun"]
    return f"{chinese_number(part)}{noun}，共{chinese_number(every)}{noun}"


def _bracketed(match: re.Match[str]) -> str:
    number = match["number"] or match["class"]
    return chinese_number(number) if number.isascii() else number


def _section_index(match: re.Match[str]) -> str | None:
    return _say_index(match[0]) if int(match["chapter"]) >= int(match["part"]) else None


REFERENCES = (
    span("figures and formulas", _NAMED, _named),
    span("further figures", _FURTHER, _further),
    span("standards", _STANDARD, _standard),
    span("volumes and pages", _VOLUME, _volume),
    span("pages", _PAGE, _page),
    span("numbers in brackets", _BRACKETED, _bracketed, without_digits=True),
    span("so much of so many parts", _OF_ALL, _of_all),
    # 18/33层: on this floor of so many
    span(
        "floors",
        r"(?<![\d/.-])(?P<part>\d{1,2})/(?P<all>[4-9]|[1-9]\d{1,2})(?P<noun>层)(?!板)",
        lambda match: _of_all(match) if int(match["part"]) <= int(match["all"]) else None,
    ),
    span("numbers of sections", _SECTION_INDEX, _section_index),
    # 约翰福音3:16, 诗篇23:1-3
    span(
        "verses",
        r"(?:(?<=福音)|(?<=诗篇)|(?<=箴言)|(?<=行传)|(?<=启示录)|(?<=[世及未命]记)|(?<=[前后亚马所文西太雅]书))\s?"
        r"\d{1,3}[:：]\d{1,3}(?:[-–~]\d{1,3})?(?![\d:：])",
        lambda match: numbers_said(re.sub("[-–~]", "到", re.sub("[:：]", "章", match[0]))) + "节",
    ),
    span("numbered items", _ITEM, lambda match: f"{chinese_number(match['number'])}，"),
    span(
        "abbreviations of parts",
        _ABBREVIATED,
        lambda match: _NUMBERED[match["noun"]].format(chinese_number(match["number"])),
    ),
    span("sections", _SECTION, lambda match: f"第{_say_index(match['index'])}节"),
    span(
        "roman numerals",
        _ROMAN,
        lambda match: chinese_number(str(value_of(match[0]))),
        without_digits=True,
    ),
    span("years in brackets", _YEAR, lambda match: chinese_digits(match[0])),
)
