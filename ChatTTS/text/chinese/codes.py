"""Numbers behind the word for them (卡号, 验证码), and those of cards, commits and networks."""

from __future__ import annotations

import re

from ..number_words import chinese_digits, chinese_number
from ..spans import span
from .numbers import AMOUNT, by_digits, digit_by_digit, in_groups, numbers_said

# Behind these stand digits alone, behind others letters as well.
_PHONES = "传真|电话|热线|客服|手机号?码?|号码|座机|后四位|后4位"
_LABELS = (
    "尾号|学号|工号|编号|单号|订单号?|卡号|账号|帐号|账户|身份证号?码?|证件号码?|证号|邮编|邮政编码|QQ号?|QQ群号?|微信号?|"
    "验证码|密码|校验码|代码|ISBN|序列号|流水号|运单号?|合同号|发票号码?|群号|会议号|参会码|ICP备|"
    "编码|货号|料号|件号|款号|房号|门牌号|取件码|提取码|口令|分机号?|批号|批准文号|案号|会员号|取餐号|内线|邀请码|激活码|端口号?|错误码|状态码|兑换码|序号|QQ群|工单"
    r"|[\u4e00-\u9fff]{1,3}(?:号|(?<![尺数鞋])码)(?=[:：])|(?<![A-Za-z])I[Dd]"
)
_IS = r"(?:就?是|为|：|:|#|\s){0,3}"
_LABELLED = re.compile(
    rf"(?P<label>(?:{_LABELS}|{_PHONES}){_IS})"
    rf"(?P<number>\d[\d -]{{1,30}}\d[Xx]?|[A-Z]{{0,6}}-?\d{{3,12}})"
    rf"(?![\dA-Za-z.]|-\d|\s?(?:{AMOUNT}))"
)
_MIXED = re.compile(
    rf"(?P<label>(?:{_LABELS}|(?<![A-Za-z])[Vv](?:信|(?=[\s:：]))){_IS})"
    # 密码10min内有效: a measure is none.
    r"(?!\d{1,4}(?:min|[hsdwkg]|[GM]B|[kcm]m)(?![A-Za-z\d_-]))"
    r"(?P<number>(?=[A-Za-z_-]{0,20}\d)(?=\d{0,20}[A-Za-z_-])[A-Za-z\d_-]{3,30})(?![\w.])",
    re.ASCII,
)
_ADDRESS = re.compile(
    r"(?<![\d.])(?P<bytes>\d{1,3}(?:\.\d{1,3}){3})(?:/(?P<mask>\d{1,2}))?(?::(?P<port>\d{2,5}))?(?![\d.]*\d)"
)
_VERSION = re.compile(
    r"(?<![\d.])(?!(?:1\d|20)\d\d\.\d\d?\.\d\d?(?![.\d]))v?\d{1,9}(?:\.\d{1,9}){2,9}(?:-\d{1,4})?(?![\d.])"
    r"|(?<![A-Za-z\d])v\d{1,9}(?:\.\d{1,9})?",
    re.ASCII,
)


def _labelled(match: re.Match[str]) -> str:
    number = match["number"]
    letters = re.match(r"[A-Z]*", number)
    said = in_groups(number) + number[-1:].strip("0123456789")
    return match["label"].replace("#", "") + (letters[0] if letters else "") + said


def _mixed(match: re.Match[str]) -> str:
    """Return letters and digits one by one, as of a password."""
    names = {"_": "下划线", "-": "杠"}
    label = match.string[match.start() : match.start("number")]
    return label + "".join(names.get(sign) or by_digits(sign) or sign for sign in match["number"])


def _address(match: re.Match[str]) -> str:
    said = "点".join(map(chinese_digits, match["bytes"].split(".")))
    if match["mask"]:
        said += f"斜杠{chinese_number(match['mask'])}"
    return f"{said}端口{chinese_digits(match['port'])}" if match["port"] else said


def _version(match: re.Match[str]) -> str:
    number, _, build = match[0].removeprefix("v").partition("-")
    said = "点".join(map(chinese_number, number.split(".")))
    return f"{said}杠{chinese_number(build)}" if build else said


CODES = (
    span("addresses of networks", _ADDRESS, _address),
    # ×××3736
    span(
        "numbers with a mask",
        r"(?<![A-Za-z\d])\d{0,8}[×xX*]{3,20}\d{2,8}(?!\d)",
        lambda match: in_groups(match[0]),
    ),
    span("numbers behind their label", _LABELLED, _labelled),
    span("passwords", _MIXED, _mixed),
    span(
        "status codes",
        rf"(?:(?<=HTTP)|(?<=HTTP\s)|(?<=返回)|(?<=返回\s)|(?<=报))[1-5]\d\d(?![\d.%]|\s?(?:{AMOUNT}))"
        r"|(?<![\d.A-Za-z])[45]\d\d(?=\s?(?:错误|报错|页面|状态|Not|Bad|Internal|Gateway|Forbid|Unauth))",
        digit_by_digit,
    ),
    span(
        "ports",
        r"(?<=[A-Za-z]):(?P<port>\d{4,5})(?!\d)",
        lambda match: f"端口{chinese_digits(match['port'])}",
    ),
    span(
        "addresses of hardware",
        r"(?<![\w:])[\dA-Fa-f]{2}(?P<sign>[:-])(?:[\dA-Fa-f]{2}(?P=sign)){4}[\dA-Fa-f]{2}(?![\w:])",
        lambda match: numbers_said(re.sub("[:-]", "，", match[0]), by_digits),
        without_digits=True,
    ),
    span(
        "cards in groups",
        r"(?<!\d)\d{4}(?: \d{4}){2,4}(?: \d{1,3})?(?![ \d])",
        lambda match: in_groups(match[0]),
    ),
)
# Behind dates, which have three parts as well.
RELEASES = (
    span("releases", _VERSION, _version),
    span(
        "numbers in groups",
        r"(?a)(?<![\w.-])(?<!\d,)(?:(?P<small>[1-9]?\d(?:-[1-9]?\d){2}(?!-))|\d{1,6}(?:-\d{1,6}){2,5}|(?:20\d{6}|0\d{1,11}|\d{9,12})-\d{1,8})(?![\w.-]|,\d{3})",
        lambda match: (
            numbers_said(match[0].replace("-", "，")) if match["small"] else in_groups(match[0])
        ),
    ),
    # 6ES7-214-1AG40: with a letter, numbers between dashes are no range.
    span(
        "codes with dashes",
        r"(?a)(?<![\w.-])(?=[A-Z\d-]{0,40}[A-Z])(?=[A-Z-]{0,40}\d)(?P<number>[A-Z\d]{1,12}(?:-[A-Z\d]{1,12}){2,5})(?![\w-]|\.\w)",
        _mixed,
    ),
    # 60335-1, 2023-2, 6204-2RS: what is much longer than what stands behind its dash.
    span(
        "numbers with a part",
        r"(?a)(?<![\w.:/$¥-])\d{4,8}-\d{1,2}(?:(?![GMKT]B|K[GM]|M[ML])[A-Z]{2,3})?"
        rf"(?![\w.:/-]|\s?[=+%℃°]|\s?(?:{AMOUNT}))",
        lambda match: numbers_said(match[0].replace("-", "杠"), chinese_digits),
    ),
)
