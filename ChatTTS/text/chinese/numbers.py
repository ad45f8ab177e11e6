"""Numbers in Chinese sentences: cardinals with 两, digits one by one, and digits of a telephone."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..number_words import chinese_digits, chinese_number
from ..spans import span

NUMBER = r"\d{1,20}(?:\.\d{1,20})?"  # longer runs are read digit by digit before
# A number as people write it, with or without commas, and what they put between two of them.
WHOLE = r"(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,20})"
WRITTEN = r"(?:\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,20})?(?!\d)|\d{1,20}(?:\.\d{1,20})?)"
# One with spaces, as in papers: behind a name (iPhone 15 256GB) they divide two numbers.
GROUPED = r"(?:\A|(?<=[，,。；;：:、（(=<>≈约共为达有]))[1-9]\d{0,2}(?: \d{3}){1,5}(?![\d.]| \d)"
BETWEEN = "[-–—~～至到]"

# What is counted with 两. 二年级, 二次元 and 二分之一 are no counts.
_COUNTED = (
    "(?!年级|次元|次方|分之|本院|维|点[零一二三四五六七八九])(?:个|位|名|只|条|张|本|件|台|辆|部|天|周|年|"
    "小时|分钟|分|秒|次|遍|点|块|元|倍|种|类|人|口|斤|公里|千米|米|厘米|毫米|微米|吨|克|千克|公斤|毫克|升|毫升|"
    "岁|家|座|棵|颗|杯|瓶|碗|盒|包|袋|双|对|套|把|间|层|排|行|列|句|段|篇|首|门|项|场|支|根|头|匹|艘|架|枚|粒|份|"
    "户|大(?!于)|国|地|方|边|侧|端|者|半|百|千|万|亿|兆|美元|欧元|英镑|日元|港元|韩元|平方|立方|瓦|伏|千瓦|步|轮|期|则|"
    "幅|顶|扇|盏|朵|滴|片|群|批|队|组|串|股|道|处|所|栋|幢|桌|节|课|回|趟|番|顿|刻|星期|礼拜|夜|晚|世纪|款|声|拳|"
    "局|盘|胜|连|度|摄氏度|毫秒|公顷|亩|里|英里|英寸|英尺|寸|尺|页|章|封|副|桶|箱|罐|车|船|帧|票|成|折|厢|院|勺|匙|茶匙|汤匙|瓣|格|例|宗|起(?!点|始|跳|步)|笔|针|剂|单(?!元|号|位|独)|阵|桩|卷|捆|字|省|市|县|厅|卫(?!星|生)|室)"
)
# What makes a number before it an amount rather than a name: 给110元, 订单100多个, 代码5000行.
AMOUNT = (
    r"(?!支[付持撑取出]|本[次周人地机文]|公[司布告]|部[分署]|头[像部]|张[贴三]|里程|度假|行[业情]|口[令味]|点[击评赞])[%个人位名元块台条部次件行页字多余几万亿千份年月天克吨米分秒岁只辆家斤篇张本公两倍里度点口支头粒"
    r"瓶箱杯袋盒种类层间套户组座棵双根段辈]|小时|美元|平方?米|立方|厘米|毫米|毫升|升"
)
_LEADING_TWO = re.compile(r"二(?=[百千万亿兆])")
# What makes a number behind it the name of a place in a row: 第2, 周2, B2.
_IN_A_ROW = re.compile(r"(?:第|初|星期|礼拜|(?<!每)周|(?:[A-WYZa-wyz]|(?<=[A-Za-z])[xX])\s?)\Z")
_COUNTED_NEXT = re.compile(rf"\s?°|[wW](?![A-Za-z])|{_COUNTED}")
_NO_YEAR = re.compile(rf"\s?(?:{AMOUNT}|[-–—~～至到]\s?\d|出(?![版生道厂土品现])|包|入手|[可不]刀)")
_AMOUNT_NEXT = re.compile(rf"\s?(?:{AMOUNT})")
# Digits of a name, which has no commas and is not round, such as that of a share.
_NAME = re.compile(r"\d{6,20}(?<!00)|\d{13,20}")
# One that is no count is a year: 歌手2024, CVPR 2023. 1999 and 2000 are sums as often.
_YEAR = re.compile(r"19[5-9]\d(?<!99)|20[0-4]\d(?<!000)")
_MOST_DIGITS = 12  # a longer run is always a name: of a card, an order, a person
_MUCH = re.compile(r"[约近达超过共计有至到于破余剩满口数量额值价积=<>≈+×*/-]\s?\Z")
# What is done with amounts, in a clause that speaks of no name.
_PAID = re.compile(
    r"(?:[捐花赚付收卖买亏赔存取借欠奖罚募投输赢送贷领发转][了过到]?|[^\d\W][了过])\s?\Z"
)
_NAMES = re.compile(r"[号码密证股票键]|代码|编号|账户|[A-Za-z]\Z")
_LOOK_BACK = 16  # characters
# "第03章" is the third chapter; "第007号" keeps its zeros, as the name that it is.
_PARTS = frozenset("章节集回课页卷期季话幕篇册讲天周")


def spoken(written: str) -> str:
    """Return an amount in words: "200" is 两百, and "1,200.5" is 一千二百点五."""
    words = chinese_number(written)
    return _LEADING_TWO.sub("两", words, count=1) if written[0] == "2" else words


def by_digits(written: str) -> str:
    """Return digits one by one with 幺 for one, as in numbers of telephones and cards."""
    return chinese_digits(written).replace("一", "幺")


def numbers_said(text: str, say: Callable[[str], str] = chinese_number) -> str:
    """Return ``text`` with each run of digits as ``say`` says it."""
    return re.sub(r"\d+", lambda digits: say(digits[0]), text)


def digit_by_digit(match: re.Match[str]) -> str:
    """Return the digits of a match one by one, as of a model or a year."""
    return chinese_digits(match[0])


def in_groups(written: str) -> str:
    """Return groups of digits one by one, with a pause between groups."""
    return "，".join(map(by_digits, re.findall(r"\d+", written)))


def _placed(match: re.Match[str]) -> str:
    """Return a number as its neighbours show it: a place in a row, a name, or an amount."""
    number, text, end = match[0], match.string, match.end()
    before = text[max(0, match.start() - 3) : match.start()]
    if before.endswith("第") and text[end : end + 1] in _PARTS:
        number = number.lstrip("0") or number
    is_behind_letter = re.search(r"[A-Za-z]\s?\Z", before)
    gap = " " if re.search(r"[A-Za-z]\Z", before) else ""
    near = text[max(0, match.start() - _LOOK_BACK) : match.start()]
    clause = re.split("[，。！？；,;\n]", near)[-1]
    is_paid = _PAID.search(clause) and not _NAMES.search(clause)
    is_year = number != text and not is_paid and not _NO_YEAR.match(text, end)
    if _YEAR.fullmatch(number) and is_year and not _MUCH.search(before):
        return gap + chinese_digits(number)
    if _IN_A_ROW.search(before) and not (is_behind_letter and _NAME.fullmatch(number)):
        return gap + chinese_number(number)
    if number == "2" and _COUNTED_NEXT.match(text, end):
        return "两"
    is_much = not before or _MUCH.search(before) or is_paid or _AMOUNT_NEXT.match(text, end)
    is_name = len(number) > _MOST_DIGITS or not is_much
    return by_digits(number) if is_name and _NAME.fullmatch(number) else spoken(number)


def _thousands(match: re.Match[str]) -> str:
    """Return 一千五百 for 1.5k."""
    return spoken(match[1] + (match[2] or "").ljust(3, "0"))


def _thousands_to(match: re.Match[str]) -> str:
    low, high = (spoken(f"{match[name]}000") for name in ("low", "high"))
    return f"{low}到{high}"


LONG_NUMBERS = (
    span(
        "very long numbers",
        r"(?<!\d)(?:\d{1,19}\.)?\d{20,}",
        lambda match: "点".join(map(chinese_number, match[0].split("."))),
    ),
)
# Behind all other classes.
NUMBERS = (
    span("grouped numbers", GROUPED, lambda match: spoken(match[0].replace(" ", ""))),
    span("numbers", WRITTEN, _placed),
    span(
        "decimals without a zero",
        r"(?<![A-Za-z\d.])\.\d{1,20}",
        lambda match: f"零点{chinese_digits(match[0])}",
    ),
    # What is left of a number that another class has a part of.
    span("digits", r"\d{1,20}", _placed),
)
THOUSANDS = (
    span(
        "thousands to thousands",
        r"(?<![A-Za-z\d.])(?P<low>[1-9]\d{0,2})[-~～—–](?P<high>[1-9]\d{0,2})[kK](?![A-Za-z\d])",
        _thousands_to,
    ),
    # 2k5, 1w2
    span(
        "thousands and hundreds",
        r"(?<![A-Za-z\d.])(?P<number>[1-9]\d?)(?P<scale>[kw])(?P<rest>[1-9])(?![A-Za-z\d.])",
        lambda match: (
            f"{'两' if match['number'] == '2' else chinese_number(match['number'])}"
            f"{'千' if match['scale'] == 'k' else '万'}{chinese_digits(match['rest'])}"
        ),
    ),
    span(
        "thousands",
        r"(?<![A-Za-z\d.])(\d{1,4})(?:\.(\d{1,3}))?k"
        r"(?![A-Za-z\d]|视频|画质|分辨率|屏|电视|显示器|高清|超清|蓝光)",
        _thousands,
    ),
)
