"""Numbers that are names of things: rooms, roads, flights, trains, plates, models, institutions."""

from __future__ import annotations

import re

from ..number_words import chinese_digits, chinese_number
from ..spans import span
from .numbers import AMOUNT, by_digits, digit_by_digit, numbers_said

_ROOMS = (
    "室|号?房(?!间?数|价|产|贷|地|屋|子|型|租|源|企)|会议室|教室|包厢|包间|病房|寝室|宿舍|机房|办公室|"
    "实验室|号?房间(?!数)"
)
_PLACES = "登机口|检票口|候机厅|展位|展台|摊位|机位|车位|铺位|座(?!位数|客)|号?出口|入口|航站楼"
_WAYS = r"[国省县乡]道|[^\d，。；、]{0,6}(?:高速|公路|快速路|绕城)"
_PROVINCES = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"
_EVENTS = "事件|事变|惨案|政变|晚会|大案|空难|火灾|矿难|爆炸|特大|重大事故"
_INSTITUTIONS = (
    "医院|部队|工厂|厂(?![家房])|中学|研究所|艺术区|文化园|基地|高地|"
    f"{_EVENTS}|计划|工程|购物节|大促|工作制|作息"
)
_CURRENCIES = "USD|EUR|GBP|CNY|RMB|HKD|JPY|AUD|CAD|KRW|SGD|TWD|CHF|NTD"


def _digits(written: str) -> str:
    """Return a name's number: digits one by one, where it has more than two."""
    return by_digits(written) if len(written) > 2 or written[0] == "0" else chinese_number(written)


def _room(match: re.Match[str]) -> str:
    """Return 三杠二杠幺五零二 for 3-2-1502; behind a letter there is no word for the dash."""
    said = re.sub(r"(?<=[A-Z])-", "", match[0])
    return numbers_said(said, _digits).replace("-", "杠")


def _train(match: re.Match[str]) -> str:
    numbers = f"{match['number']}{match['more']}".split("/")
    said = (chinese_digits(each) if len(each) == 1 else by_digits(each) for each in numbers)
    return match["letter"] + "、".join(said)


def _each_digit(match: re.Match[str]) -> str:
    return "".join(by_digits(sign) or sign for sign in re.sub(r"[·\s-]", "", match[0]))


def _model(match: re.Match[str]) -> str | None:
    """Return a model's number digit by digit; one in round hundreds, as in A100, is a number."""
    number = match["number"]
    gap = " " if match["gap"] == " " else ""
    if number.endswith("00"):
        return None if not match["gap"] else f"{match['letters']} {chinese_number(number)}"
    return match["letters"] + gap + chinese_digits(number)


def _processor(match: re.Match[str]) -> str:
    first, second = match["first"], match["second"]
    said = chinese_number(second) if second.endswith("000") else chinese_digits(second)
    return f"{match['letters']}{chinese_number(first)} {said}"


def _mixed(match: re.Match[str]) -> str:
    """Return digits one by one in a code of many runs, and short ones as numbers in others."""
    runs = re.findall(r"\d+|[A-Za-z]+", match[0])
    most = 2 if len(runs) < 8 else 0
    return numbers_said(
        match[0], lambda run: (chinese_number if len(run) <= most else chinese_digits)(run)
    )


# D4617/4620次 has a number for each direction.
_TRAIN = r"(?P<letter>[GDCZTKYLS])(?P<number>\d{1,4})(?P<more>(?:/\d{1,4}){0,2})"
# B-726室, G4高速, 3-201; 3-300 is a range.
_PARTS_OF_PLACES = {
    "rooms": (
        r"(?<![A-Za-z\d.-])(?:[A-Z]-?|(?:[A-Z]?\d{1,2}-){1,2})?(?!20\d\d年)"
        rf"\d{{3,4}}(?=\s?(?:{_ROOMS}))"
    ),
    "rooms behind their house": (
        rf"(?:(?<=[栋座幢])|(?<=单元)|(?<=\d[层楼]))"
        rf"(?:[1-9]\d{{2,3}}(?![\d.-]|[号元米层平万亿个]|\s?(?:{AMOUNT}))"
        r"|\d{1,3}-\d{1,4}(?![\d.-]|[层楼號号]))"
    ),
    "rooms behind a short number": (
        r"(?a)(?<![\w.:/$¥第约近共达到于-])[1-9]\d?-(?!(?:19|20)\d\d)[1-9]\d{1,2}[1-9]"
        rf"(?![\w.:/-]|[号集章节回课期页题%℃°]|\s?(?:{AMOUNT}))"
    ),
    "places of a building": rf"(?<![A-Za-z\d.-])[A-Z]-?\d{{1,4}}(?=\s?(?:{_PLACES}))",
    "roads": rf"(?<![A-Za-z\d.])[GSXY]\d{{1,4}}(?={_WAYS})|(?<![A-Za-z\d.])\d{{3}}(?=[国省县乡]道)",
}
# HU7603航班, SF1382904756612.
_SIGN_BY_SIGN = {
    "flights": (
        r"(?<![A-Za-z\d])(?:[A-Z]{2}|[A-Z]\d|\d[A-Z])\s?\d{3,4}(?=次?航班|次|号?客机|班机)"
        r"|(?:(?<=[东南国川海厦深山]航)|(?<=航班)|(?<=航班号)|(?<=航班：)|(?<=航班号：))(?:[A-Z]{2}|\d[A-Z])\s?\d{3,4}(?!\d)"
    ),
    "numbers with letters": (
        r"(?<![A-Za-z\d])[A-Z]{1,4}\d{6,20}(?![\dA-Za-z.])"
        r"|(?<![A-Za-z\d.,:-])0\d{2,9}[A-Z]{1,2}(?![A-Za-z\d])"
    ),
}
# Said digit by digit: 301医院, 9.11事件, 99新, 88888, 2333 (laughter), 886 (bye), 618, 985.
_DIGITS = {
    "institutions and events": rf"(?<![\d.:,第])(?!\d{{1,2}}00)\d{{3,4}}(?={_INSTITUTIONS})",
    "days of events": rf"(?<![\d.·])\d{{1,2}}[.·]\d{{1,2}}(?=\s?[”\"]?\s?(?:{_EVENTS}))",
    "states of used things": r"(?<![\d.])[789]\d(?=新(?:$|[^\u4e00-\u9fff]|[的无成机]))",
    "numbers of chats": (
        rf"(?<![\d.:/第约近过超达满共余了价仅要到至为于+$¥A-Za-z-])(?<!\d,)"
        rf"(?:([2-9])\1{{2,9}}|23{{2,9}}|5201314|1314)"
        rf"(?![\d%℃°]|[.,:/-]\d|\s?(?:{AMOUNT}))"
        r"|(?<=[溜走下睡闪撤]了)886(?!\d)"
        r"|(?<![\d.:/第约近过超达满共余了价仅要到至为于+$¥A-Za-z-])(?<!\d,)886"
        r"(?=$|[^\d\u4e00-\u9fffA-Za-z.%+-]|[啦咯了])"
    ),
    "words of digits": (
        r"(?<![\d第.元])(?:(?:618|996)(?![\d.–—-]|[个元块人名次米件台年月天号分公平万亿%页]))"
        r"|(?<![\d.])(?:985|211|007|520)(?=活动|表白|告白|快乐|礼物|红包|情人|[、和]?211|[、和]?985|"
        r"[^\d，。]{0,3}(?:高校|院校|大学|毕业|名校))"
    ),
    "aircraft": rf"(?<![\d.,:$¥A-Za-z])7[0-8]7(?![\d.,:%]|\s?(?:{AMOUNT}))",
    "resolutions": r"(?<![\d.,A-Za-z])[1-9]\d{2,3}(?=[pP](?![A-Za-z\d]))",
}

NAMES = (
    *(span(kind, pattern, _room) for kind, pattern in _PARTS_OF_PLACES.items()),
    # C1-C37, P25-P50
    span(
        "names to names",
        r"(?<![A-Za-z\d.-])(?P<letter>[A-Z])(?P<first>\d{1,3})\s?[-–—~～]\s?(?P=letter)(?P<last>\d{1,3})(?![\dA-Za-z.-])",
        lambda match: (
            f"{match['letter']}{chinese_number(match['first'])}到"
            f"{match['letter']}{chinese_number(match['last'])}"
        ),
    ),
    span("trains", rf"(?<![A-Za-z]){_TRAIN}(?=次|号?列车|高铁|动车|号车)", _train),
    *(span(kind, pattern, _each_digit) for kind, pattern in _SIGN_BY_SIGN.items()),
    span(
        "plates",
        rf"[{_PROVINCES}][A-Z][·\s-]?[A-Z\d]{{5,6}}(?![A-Za-z\d])",
        _each_digit,
        without_digits=True,
    ),
    span(
        "processors",
        r"(?<![A-Za-z\d-])(?P<letters>[A-Za-z]{1,5})(?P<first>\d{1,2})-(?P<second>\d{4,5})(?![\d.-])",
        _processor,
    ),
    span(
        "models",
        rf"(?<![A-Za-z\d.-])(?!{_CURRENCIES})(?P<letters>[A-Z]{{1,5}}|[a-z](?=\d)|(?<=骁龙|天玑|麒麟|锐龙|酷睿|标致|空客))"
        rf"(?P<gap>(?<=[A-Z]{{2}}) (?=\d{{4}}(?![a-zμµ])|\d{{3}}(?![以左上多毫微千])"
        r"[\u4e00-\u9fff])|-?)"
        rf"(?P<number>[1-9]\d{{2,4}})"
        rf"(?![\d.,:+/-]\d|[\d%℃°]|\s?(?:{AMOUNT}))",
        _model,
    ),
    # f/2.8L: the letter is no litre.
    span(
        "apertures",
        r"(?<![A-Za-z\d])[fF]/(?P<number>\d{1,2}(?:\.\d)?)(?![\d.])",
        lambda match: f"f {chinese_number(match['number'])}",
    ),
    span(
        "shops",
        r"(?<![\d.A-Za-z-])7-?11(?=便利|全家|罗森)|(?:(?<=[在去到从家逛进])|(?<=楼下))7-11"
        rf"(?![\d.%-]|[题章层楼排期号周级班节至到]|\s?(?:{AMOUNT}))",
        lambda match: by_digits(match[0]),
    ),
    span(
        "numbers of editions",
        r"(?<=第)(?:\d{5,12}|20\d\d-\d{1,3})(?=[期号])",
        lambda match: "杠".join(map(chinese_digits, match[0].split("-"))),
    ),
    # 3/4号线, 1/2单元
    span(
        "two numbers of one kind",
        r"(?<![\d./-])\d{1,3}(?:/\d{1,3}){1,4}(?=号[线楼门院口机桌窗柜]|单元|[栋幢班路楼](?!房))",
        lambda match: "、".join(map(chinese_number, match[0].split("/"))),
    ),
    *(span(kind, pattern, digit_by_digit) for kind, pattern in _DIGITS.items()),
)
# Behind measures and lengths of time, which have letters between digits as well.
MIXED = (
    # 5800X3D, ESP32S3; 2x2 is a product
    span(
        "letters between digits",
        r"(?<![A-Za-z\d_.])(?=[A-Za-z]{0,20}\d{1,20}(?![xXvV]\d{1,9}(?![A-Za-z\d]))[A-Za-z]{1,20}\d)"
        r"[A-Za-z\d]{4,64}(?![A-Za-z\d_])",
        _mixed,
    ),
)
