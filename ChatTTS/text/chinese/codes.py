"""Read numbers that are names rather than amounts, in Chinese: telephones, cards, trains, rooms."""

from __future__ import annotations

import re

from ..numbers import chinese_digits, chinese_number
from ..readers import Rule, rewrite
from .numbers import by_digits, in_groups


def _phone(match: re.Match[str]) -> str:
    plus = "加" if match[0].startswith("+") else ""
    return plus + in_groups(match[0])


def _named(match: re.Match[str]) -> str:
    return match[1] + in_groups(match[2]) + match[2][-1:].strip("0123456789")


def _train(match: re.Match[str]) -> str:
    letter, number = match[1] or match[3], match[2] or match[4]
    return letter + (chinese_digits(number) if len(number) == 1 else by_digits(number))


def _plate(match: re.Match[str]) -> str:
    return match[1] + "".join(by_digits(sign) or sign for sign in match[2])


def _version(match: re.Match[str]) -> str:
    return "点".join(chinese_number(part) for part in match[0].removeprefix("v").split("."))


_NAMES = (
    "尾号|学号|工号|编号|单号|订单号?|卡号|账号|帐号|账户|身份证号?码?|证件号码?|证号|邮编|邮政编码|QQ号?|QQ群号?|微信号?|"
    "验证码|密码|校验码|代码|传真|ISBN|序列号|流水号|运单号?|合同号|发票号码?|号码|电话|热线|客服|手机号?码?|群号|座机|"
    "房号|门牌号|取件码|提取码|口令"
)
# What makes a number behind such a word an amount: 给110元, 订单100多个, 代码5000行.
_AMOUNT = r"[%个人位名元块台条部块次件行页字多余几万亿份年月天克吨米分秒岁]|公里|小时|美元"
_HOTLINES = r"(?:11[0-9]|12[02]|12[13]\d{2}|9[56]\d{3,4}|100(?:86|10|00|01|50)|1[02]0\d{2})"
_PROVINCES = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"
_CODES: list[Rule] = [
    (
        re.compile(r"(?<![\d.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\d.])"),
        lambda match: "点".join(map(chinese_digits, match.groups())),
    ),
    (
        re.compile(
            rf"((?:{_NAMES})(?:就?是|为|：|:|\s){{0,3}})(\d[\d -]{{1,30}}\d[Xx]?)"
            rf"(?![\d.]|\s?(?:{_AMOUNT}))"
        ),
        _named,
    ),
    # A mobile number, one of a land line, one of a service.
    (
        re.compile(
            r"(?<!\d)(?:\+?86[\s-]?)?1[3-9]\d[\s-]?\d{4}[\s-]?\d{4}(?!\d)"
            r"|(?<![\d-])0\d{2,3}[\s-]\d{3,4}[\s-]?\d{4}(?![\d-])|(?<![\d-])0\d{9,11}(?![\d-])"
            r"|(?<![\d-])[48]00-?\d{3,4}-?\d{3,4}(?![\d-])"
        ),
        _phone,
    ),
    (
        re.compile(rf"((?:打|拨|呼叫|致电|联系|咨询|给|按)了?)({_HOTLINES})(?!\d|\.\d|{_AMOUNT})"),
        _named,
    ),
    (
        re.compile(
            rf"(?<!\d)()({_HOTLINES})(?=报警|急救|热线|电话|客服|来电|平台|短信|出警|指挥中心|打来|接线|投诉|专线)"
        ),
        _named,
    ),
    (re.compile(r"((?:[栋座幢]|单元))([1-9]\d{2,3})(?![\d.]|[号元米层平万亿个])"), _named),
    (re.compile(r"\A()(11[09]|12[02]|114)\Z"), _named),
    # The name of a commit.
    (
        re.compile(
            r"(?<![A-Za-z\d.-])(?=[0-9a-f]{0,39}[a-f])(?=(?:[a-f]{0,9}\d){2})[0-9a-f]{7,40}"
            r"(?![A-Za-z\d.-])"
        ),
        lambda match: "".join(chinese_digits(sign) or sign for sign in match[0]),
    ),
    # An identity card's number.
    (re.compile(r"(?<!\d)()(\d{17}[\dXx])(?![\dA-Za-z])"), _named),
    (re.compile(r"(?<!\d)()(\d{4}(?: \d{4}){2,4}(?: \d{1,3})?)(?![ \d])"), _named),
    (re.compile(r"(?<![\d.-])()([1-9]\d{2,3})(?=室|号?房(?!间?数|价|产|贷|地|屋|子))"), _named),
    (
        re.compile(
            r"(?<![A-Za-z])([GDCZTKYL])(\d{1,4})(?=次|号?列车|高铁|动车|号车)"
            r"|(?<=乘坐)([GDCZTK])(\d{1,4})(?!\d)"
        ),
        _train,
    ),
    (
        re.compile(r"(?<![A-Za-z\d])([A-Z]{2}|[A-Z]\d|\d[A-Z])(\d{3,4})(?=次?航班|次)"),
        lambda match: "".join(by_digits(sign) or sign for sign in match[1]) + by_digits(match[2]),
    ),
    (re.compile(rf"([{_PROVINCES}][A-Z])[·-]?([A-Z\d]{{5,6}})(?![A-Za-z\d])"), _plate),
    # Days of shopping, kinds of universities, hours of work.
    (
        re.compile(
            r"(?<![\d第.])(?:(?:618|996)(?![\d.]|[个元块人名次米件台年月天号分公平万亿%页]))"
            r"|(?<![\d.])(?:315|985|211|996|007|520)(?=大促|购物节|活动|晚会|工作制|表白|[、和]?211|[、和]?985|"
            r"[^\d，。]{0,3}(?:高校|院校|大学|工程|毕业|名校))"
        ),
        lambda match: chinese_digits(match[0]),
    ),
    (
        re.compile(
            r"(?<![\d.])(?!(?:1\d|20)\d\d\.\d\d?\.\d\d?(?![.\d]))v?\d+(?:\.\d+){2,}(?![\d.])|(?<![A-Za-z])v\d+(?:\.\d+)?",
            re.ASCII,
        ),
        _version,
    ),
]


def read_codes(text: str) -> str:
    """Return ``text`` with the numbers that name something digit by digit."""
    return rewrite(text, _CODES)
