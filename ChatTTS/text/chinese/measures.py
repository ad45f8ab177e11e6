"""Measures: 60-80km/h, 32万km², 100mg/片, 116°23′, 1米75, and what is counted per something."""

from __future__ import annotations

import re

from ..number_words import chinese_number
from ..readers import either
from ..spans import span
from .numbers import AMOUNT, BETWEEN, GROUPED, WRITTEN, digit_by_digit, spoken

_UNITS = {
    "m2": "平方米", "km2": "平方公里", "cm2": "平方厘米", "mm2": "平方毫米", "m3": "立方米",
    "cm3": "立方厘米", "dm3": "立方分米", "km": "公里", "m": "米", "dm": "分米", "cm": "厘米",
    "mm": "毫米", "µm": "微米", "μm": "微米", "um": "微米", "nm": "纳米", "kg": "千克",
    "KG": "千克", "Kg": "千克", "g": "克", "mg": "毫克", "µg": "微克", "μg": "微克", "t": "吨",
    "L": "升", "l": "升", "ml": "毫升", "mL": "毫升", "ML": "毫升", "dL": "分升", "cc": "毫升",
    "THz": "太赫", "GHz": "吉赫", "MHz": "兆赫", "kHz": "千赫", "Hz": "赫兹", "V": "伏",
    "mV": "毫伏", "kV": "千伏", "W": "瓦", "mW": "毫瓦", "kW": "千瓦", "KW": "千瓦", "MW": "兆瓦",
    "GW": "吉瓦", "kWh": "千瓦时", "Wh": "瓦时", "mA": "毫安", "mAh": "毫安时", "dB": "分贝",
    "ms": "毫秒", "μs": "微秒", "µs": "微秒", "ns": "纳秒", "s": "秒", "min": "分钟", "h": "小时",
    "kcal": "千卡", "cal": "卡", "J": "焦", "kJ": "千焦", "N": "牛", "Pa": "帕", "hPa": "百帕",
    "kPa": "千帕", "MPa": "兆帕", "mmHg": "毫米汞柱", "cmH2O": "厘米水柱", "ha": "公顷",
    "mol": "摩尔", "mmol": "毫摩尔", "μmol": "微摩尔", "Ω": "欧", "kΩ": "千欧", "°C": "摄氏度",
    "°F": "华氏度", "ft": "英尺", "lb": "磅", "rpm": "转每分", "r/min": "转每分", "oz": "盎司",
    "mph": "英里每小时", "ppm": "百万分之一", "bpm": "次每分", "Mbps": "兆比特每秒",
    "Gbps": "吉比特每秒", "fps": "帧每秒", "kph": "公里每小时", "IU": "国际单位", "U/L": "单位每升",
    "GB": "GB", "MB": "MB", "KB": "KB", "TB": "TB", "PB": "PB", "Gb": "Gb", "Mb": "Mb",
    "Kbps": "千比特每秒", "kbps": "千比特每秒", "bp": "个基点", "BP": "个基点", "bps": "个基点",
    "bar": "巴", "psi": "磅每平方英寸", "N·m": "牛米", "Nm": "牛米", "kN": "千牛", "kVA": "千伏安",
    "Ah": "安时", "px": "像素", "ng": "纳克", "pg": "皮克", "μL": "微升", "µL": "微升",
    "TWh": "太瓦时", "GWh": "吉瓦时", "MWh": "兆瓦时", "keV": "千电子伏", "eV": "电子伏",
    "MJ": "兆焦", "hm2": "公顷", "nmi": "海里",
}  # fmt: skip
# What may be divided by, in letters and in Chinese.
_DIVISORS = {**_UNITS, "d": "天", "s2": "平方秒", "kgf": "公斤力"}
_CHINESE_DIVISORS = (
    "平方公里|平方米|立方米|千瓦时|吨公里|公斤|千克|公里|小时|分钟|月份|季度|课时|盎司|千字|"
    "年度|学期|学年|分|秒|天|日|周|月|年|人|次|斤|吨|升|克|米|个|件|户|亩|晚|期|节|班|平|度|"
    "杯|瓶|箱|盒|片|粒|支|袋|包|例|台|辆|票|股|桶|字|场|位|床|间|餐|桌|单|条|株|枚|册|套|头|"
    "只|方"
)
_SIDES = {"N": "北纬", "S": "南纬", "E": "东经", "W": "西经"}
# 023W is a name.
_AMOUNT = rf"(?:{GROUPED}|(?!0\d\d){WRITTEN})"
_MEASURE = re.compile(
    rf"(?<![A-Za-z\d.^])(?<!\^-)(?P<behind>(?<=[A-Za-z] ))?"
    rf"(?:(?P<low>{_AMOUNT})\s?(?P<unit_>{either(_UNITS)})?\s?(?P<to>{BETWEEN})\s?)?(?P<number>{_AMOUNT})"
    rf"(?P<space>\s?)(?P<scale>[百千万亿]{{0,2}})\s?(?P<unit>{either(_UNITS)})"
    rf"(?:\s?/\s?(?P<count>\d{{1,6}}(?:\.\d{{1,4}})?)?\s?(?P<divisor>{either(_DIVISORS)}|{_CHINESE_DIVISORS}))?"
    r"(?![A-Za-z0-9_])"
)
_OF_PEOPLE = re.compile(rf"\+|\s?(?:{AMOUNT}|粉|阅|播)")
_ARC = re.compile(
    r"(?<![\d.])(?P<degrees>\d{1,3}(?:\.\d{1,8})?)\s?°\s?"
    r"(?:(?P<minutes>\d{1,2}(?:\.\d{1,6})?)\s?[′']\s?"
    r"(?:(?P<seconds>\d{1,2}(?:\.\d{1,4})?)\s?(?:[″\"]|''|′′))?)?"
    r"\s?(?P<side>[NSEW](?![A-Za-z]))?"
)


def _measure(match: re.Match[str]) -> str | None:
    number, unit, divisor = match["number"].replace(" ", ""), match["unit"], match["divisor"]
    alone = match["behind"] is not None and len(unit) == 1 and divisor is None
    if alone and (match["space"] or len(number) == 1):  # "Plan 3 L", "iPhone 5s"
        return None
    if unit == "W" and _OF_PEOPLE.match(match.string, match.end()):  # 2.5W元, 10W+
        return None
    to = "至" if match["to"] == "至" else "到"
    low = f"{spoken(match['low'])}{_UNITS.get(match['unit_'], '')}{to}" if match["low"] else ""
    if unit == "ppm":
        return f"百万分之{low}{chinese_number(number)}"
    said = low + ("两" if number == "2" else spoken(number)) + match["scale"]
    name = _UNITS[unit]
    if divisor is None:
        return said + name
    if (unit, divisor) == ("km", "h"):
        return f"每小时{said}{name}"
    count = chinese_number(match["count"]) if match["count"] else ""
    per = _DIVISORS.get(divisor, divisor)
    # 7W/165W: so much of so much, since nothing is counted per itself.
    return f"{said}{name}{'，' if divisor == unit else '每'}{count}{per}"


def _multiple(match: re.Match[str]) -> str | None:
    """Return 倍 for the x of 1.8x; that of a formula is a letter."""
    before = match.string[max(0, match.start() - 8) : match.start()]
    return None if re.search(r"[A-Za-z=+*/(^-]\s?[\d.]+\Z", before) else "倍"


def _per(match: re.Match[str]) -> str:
    unit = match["unit"]
    return f"{_UNITS.get(unit, unit)}每{_DIVISORS[match['divisor']]}"


def _weeks(match: re.Match[str]) -> str:
    days = match["days"] or match["more"]
    days = "两" if days == "2" else chinese_number(days)
    return f"{chinese_number(match['weeks'])}周加{days}天"


def _arc(match: re.Match[str]) -> str | None:
    """Return 东经一百一十六度二十三分 for 116°23′E; what is in degrees alone is no arc."""
    side, minutes, seconds = match["side"], match["minutes"], match["seconds"]
    if not side and not minutes:
        return None
    before = match.string[max(0, match.start() - 1) : match.start()]
    said = _SIDES[side] if side and before not in ("纬", "经") else ""
    said += f"{chinese_number(match['degrees'])}度"
    said += f"{chinese_number(minutes)}分" if minutes else ""
    return said + (f"{chinese_number(seconds)}秒" if seconds else "")


def _part(match: re.Match[str]) -> str:
    below, above = chinese_number(match["below"]), chinese_number(match["above"])
    if match["above"] != "1" and int(match["below"]) > 10:
        return f"{above}，{below}{_UNITS[match['unit']]}"
    return f"{below}分之{above}{_UNITS[match['unit']]}"


def _tolerance(match: re.Match[str]) -> str:
    """Return 二十六正负一摄氏度 for (26±1)℃."""
    said = f"{chinese_number(match['middle'])}正负{chinese_number(match['around'])}"
    unit = match["unit"]
    return f"百分之{said}" if unit == "%" else said + _UNITS[unit]


def _and_more(match: re.Match[str]) -> str:
    number = match["number"]
    return f"{spoken(number)}{'多' if number[-1] == '0' else '加'}{_UNITS[match['unit']]}"


def _behind_power(match: re.Match[str]) -> str:
    divisor = match["divisor"]
    return _UNITS[match["unit"]] + (f"每{_DIVISORS[divisor]}" if divisor else "")


MEASURES = (
    span(
        "tolerances",
        rf"(?:[(（]\s?|(?<![\dA-Za-z.]))(?P<middle>{WRITTEN})\s?±\s?(?P<around>{WRITTEN})\s?[)）]?\s?"
        rf"(?P<unit>{either((*_UNITS, '%'))})(?![A-Za-z0-9/])",
        _tolerance,
    ),
    span(
        "parts of a unit",
        rf"(?<![A-Za-z\d./])(?P<above>\d{{1,3}})/(?P<below>[1-9]\d{{0,4}})\s?(?P<unit>{either(_UNITS)})(?![A-Za-z0-9])",
        _part,
    ),
    span(
        "units behind a power",
        rf"(?:(?<=\^\d)|(?<=\^-\d)|(?<=\^\d\d)|(?<=\^-\d\d))\s?(?P<unit>{either(_UNITS)})"
        rf"(?:/(?P<divisor>{either(_DIVISORS)}))?(?![A-Za-z0-9])",
        _behind_power,
    ),
    span("arcs", _ARC, _arc),
    # 16w+2d
    span(
        "weeks and days",
        r"(?<![A-Za-z\d.+])(?P<weeks>\d{1,2})(?:\s?[wW]\s?\+?\s?(?P<days>[0-6])\s?[dD]|"
        r"(?<=\d\d)\+(?P<more>[0-6])\s?(?:周|[wW]))(?![A-Za-z\d])",
        _weeks,
    ),
    span("measures", _MEASURE, _measure),
    # 单位kg/m³
    span(
        "units without a number",
        rf"(?<![A-Za-z\d/=.^])(?P<unit>{either(_UNITS)})/(?P<divisor>{either(_DIVISORS)})(?![A-Za-z\d/])",
        _per,
        without_digits=True,
    ),
    # An unknown unit stays as it is: 12U/mL.
    span(
        "units in letters per something",
        rf"(?<=[\d百千万亿kKwW])(?P<unit>[\u4e00-\u9fff]{{0,3}}|(?![kKwW]/)[A-Za-z]{{1,4}})/"
        rf"(?P<divisor>{either(_DIVISORS)})(?![A-Za-z0-9])",
        _per,
        without_digits=True,
    ),
    span(
        "units per something",
        rf"(?<=[\d百千万亿kKwW%])(?P<unit>[\u4e00-\u9fff]{{0,3}})/(?={_CHINESE_DIVISORS})",
        lambda match: f"{match['unit']}每",
        without_digits=True,
    ),
    span(
        "prices per something",
        r"(?<=[元块])/(?=\d)|(?:(?<=\.\d)|(?<=\.\d\d))/(?=\d{1,3}[件瓶盒袋包斤双条个只支片])",
        "每",
    ),
    # 100+条 is more than a hundred; 5km+ as well.
    span("and more", rf"(?<=[0百千万亿])\+(?=\s?(?:{AMOUNT}))", "多"),
    span(
        "and more of a unit",
        rf"(?<![A-Za-z\d.])(?P<number>{WRITTEN})\+\s?(?P<unit>{either(_UNITS)})(?![A-Za-z0-9])",
        _and_more,
    ),
    span(
        "parts of a metre or second",
        r"(?<=\d[米秒])\d{2,3}(?![\d.]|\s?[个次米秒分人])",
        digit_by_digit,
    ),
    span(
        "days in letters",
        r"(?<=\d)(?<![A-Za-z]\d)d(?![A-Za-z\d_]|打印|电影|建模|动画|效果|眼镜|模型|游戏|渲染|"
        r"图|卷积|池化|数组|扫描|视觉|点云|网络|层)",
        "天",
    ),
    span(
        "intervals of doses", r"(?a)\b[qQ](\d{1,2})h\b", lambda match: f"每{spoken(match[1])}小时"
    ),
    span("terms in years", r"(?<=\d)Y(?![A-Za-z\d])", "年期"),
    span("amperes", r"(?:(?<=\.\d)|(?<=\.\d\d))A(?![A-Za-z\d-])", "安"),
    span(
        "ages in letters",
        r"(?:(?<=[，,、\s（(]\d)|(?<=[，,、\s（(]\d\d))y(?=$|[，,、；;）)。\s])",
        "岁",
    ),
    span(
        "inches",
        r"(?<=\d)\s?[\"″](?=\s?(?:[AO]?LED|LCD|IPS|屏|显示|电视|笔记本|硬盘|晶圆|轮|披萨))",
        "英寸",
    ),
    span("ten thousands", r"(?<=\d)[wW](?![A-Za-z\d])", "万"),
    span("multiples", r"(?<=\d)x(?=$|[，。、；！？)）,;]|[\u4e00-\u9fff])", _multiple),
)
