"""Signs of calculations, marks of names (C#, #5, 5th), and the symbols that are left."""

from __future__ import annotations

import re

from ..number_words import chinese_number
from ..readers import either
from ..spans import span
from .numbers import AMOUNT

_SYMBOLS = {
    "%": "百分号", "&": "和", "@": "艾特", "+": "加", "=": "等于", "×": "乘", "÷": "除以",
    "±": "正负", "≈": "约等于", "≤": "小于等于", "≥": "大于等于", "≠": "不等于", "°": "度",
    "$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "√": "根号", "∞": "无穷大", "∑": "求和",
    "∫": "积分", "∈": "属于", "∠": "角", "△": "三角形", "⊥": "垂直于", "∥": "平行于", "∵": "因为",
    "∴": "所以", "∪": "并", "∩": "交", "→": "到", "↑": "上升", "↓": "下降", "′": "分", "″": "秒",
    "♩": "四分音符", "♭": "降", "♯": "升",
}  # fmt: skip
_POWERS = {"2": "的平方", "3": "的立方"}
# Kinds of trade, such as B2B.
_TRADE = re.compile(r"\b(?=B2B|B2C|B2G|C2C|C2B|D2C|O2O|P2P)([A-Z])(?=\d)2([A-Z])\b", re.ASCII)


def _power(match: re.Match[str]) -> str:
    exponent = match["exponent"].lstrip("+0") or "0"
    if exponent in _POWERS:
        return _POWERS[exponent]
    minus = "负" if exponent[0] == "-" else ""
    number = exponent.removeprefix("-")
    return f"的{minus}{chinese_number(number) if number.isdigit() else number}次方"


def _result(match: re.Match[str]) -> str:
    sign = match["sign"]
    if match.string[match.start() - 1] in "极端":
        return {"+": "正", "-": "负"}.get(sign, sign)
    if sign.startswith("++"):
        return f"{'两' if len(sign) == 2 else chinese_number(str(len(sign)))}个加号"
    return {"+": "阳性", "±": "可疑", "+/-": "可疑"}.get(sign, "阴性")


# Faces, which say nothing: ^_^, (*^▽^*), T_T, >_<.
_FACE = re.compile(
    r"[(（]?\*?(?<![A-Za-z\d])(?:\^[_▽ωoO.]{0,2}\^|[TQ;Oo=>-]_{1,3}[TQ;Oo=<-](?![A-Za-z\d]))\*?[)）]?"
)

_SURNAMES = (
    "赵钱孙李周吴郑王冯陈蒋沈韩杨朱秦许何吕张孔曹严金魏陶姜谢邹潘葛范彭马方袁柳史唐薛罗毕常于傅齐康余顾孟"
    "黄萧尹邱徐高夏蔡田胡卢莫丁邓洪石崔龚程陆刘叶白乔贾江曾"
)
SIGNS = (
    # 李×, 张××
    span(
        "hidden names",
        rf"(?:(?<=[{_SURNAMES}])|(?<=[{_SURNAMES}]×))×(?=[×，。、；：,;:)）男女]|$)",
        "某",
    ),
    span("faces", _FACE, "", without_digits=True),
    span("quotients", r"(?<==[A-Za-z])/(?=[A-Za-z](?![A-Za-z]))|(?<=Δ[a-z])/(?=Δ)", "除以"),
    span(
        "powers",
        r"(?a)(?:\s?\^\s?|(?<=[\w)])\s?\*\*\s?)(?P<exponent>-?\d{1,9}|[a-z]\b)",
        _power,
        without_digits=True,
    ),
    # 1e-5, 1.5e8
    span(
        "powers of ten",
        r"(?<![A-Za-z\d.])(?P<number>\d{1,3}(?:\.\d{1,6})?)[eE](?P<exponent>[+-]?\d{1,3})(?![A-Za-z\d.])",
        lambda match: f"{chinese_number(match['number'])}乘十{_power(match)}",
    ),
    span("kinds of trade", _TRADE, lambda match: f"{match[1]} to {match[2]}"),
    span("names with a number sign", r"(?<=(?<![A-Za-z])[A-Z])#", "井"),
    span("equations", r"\s?==+\s?", "等于"),
    span(
        "numbers beside their sign",
        r"(?<![\d.A-Za-z])\d{1,4}#(?![A-Za-z]|\d(?!\d{0,3}\.\d))|#\s?\d{1,9}",
        lambda match: f"{chinese_number(match[0].strip('# '))}号",
    ),
    span("sharps", r"#(?=[A-G](?![A-Za-z]))", "升"),
    span("keys", r"(?<=\d)#(?![\dA-Za-z\u4e00-\u9fff])", "井"),
    span("topics", r"#(?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])#(?!\d)", "", without_digits=True),
    # Of a test: HBsAg(+), 巴氏征(-); a battery has poles.
    span("positive and negative", r"(?<=[\w])[(（](?P<sign>\+{1,4}|[-−–]|±|\+/-)[)）]", _result),
    # com.foo.Bar, .NET: a dot between letters ends no sentence. Initials have none.
    span("dots of initials", r"(?<=(?<![A-Za-z])[A-Za-z])\.(?=[A-Za-z](?![A-Za-z]))", ""),
    span("dots of names", r"(?<=[A-Za-z])\.(?=[A-Za-z])", "点"),
    span(
        "dots before names",
        r"(?<![A-Za-z\d.])\.(?=NET(?![A-Za-z])|[a-z])",
        "点",
        without_digits=True,
    ),
    # p.25, Mr.王: a full stop behind letters ends no sentence.
    span("dots behind letters", r"(?<=[A-Za-z])\.(?=\d|[\u4e00-\u9fff])", " ", without_digits=True),
    span("at least", r"\s?(?:[≥⩾≧]|>=)\s?", "大于等于"),
    span("at most", r"\s?(?:[≤⩽≦]|<=)\s?", "小于等于"),
    span("differences", r"\s?(?:≠|!=)\s?", "不等于"),
    span("more", r"(?<=[\w)])\s?(?<!-)>\s?(?=[\w(])", "大于"),
    span("less", r"(?<=[\w)])\s?<\s?(?=[\w(-])", "小于"),
    span(
        "English ordinals",
        r"(?a)(?<![\dA-Za-z])(?P<number>\d{1,9})(?:st|nd|rd|th)\b",
        lambda match: f"第{chinese_number(match['number'])}",
    ),
    span(
        "products",
        r"(?<=[\d)])\s?[xX]\s?(?=[\d(])|(?<=[\dA-Za-z)])\s?[×*]\s?(?=[\d(])"
        r"|(?<=(?<![A-Za-z])[A-Za-z])\s?[×*]\s?(?=[A-Za-z])"
        rf"|(?<=[\u4e00-\u9fff])x(?=\d{{1,3}}(?:{AMOUNT}))",
        "乘",
        without_digits=True,
    ),
    span("hyphens at letters", r"(?<=[A-Za-z])-(?=\d)|(?<=\d)-(?=[A-Za-z])", " "),
)
# Behind all other classes.
SYMBOLS = (
    # GB/T, f/1.8
    span(
        "strokes of a name",
        r"(?<=[A-Za-z])/(?=[A-Z](?![A-Za-z]))|(?<=(?<![A-Za-z])[A-Za-z])/(?=[A-Z\d])",
        " ",
        without_digits=True,
    ),
    span(
        "strokes before a number",
        r"(?<![\w)）%℃])(?<!\s)/(?=\d)|(?<=[^\x00-\x7f])/(?=\d\d?(?: [A-Z]|位|网段|掩码))",
        "斜杠",
    ),
    span("strokes behind a minute", r"(?<=/min)/(?=\d)", "每"),
    span("strokes", r"\s?/\s?", "、"),
    span("marks without a sound", r'["\\]', ""),
    span("symbols", either(_SYMBOLS), lambda match: _SYMBOLS[match[0]]),
)
