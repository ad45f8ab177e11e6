"""English money, measures, degrees and fractions in words."""

from __future__ import annotations

import re

from .numbers import english_number

NUMBER = r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.])\.\d+)"

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₩": ("won", "won", "", ""),
    "₹": ("rupee", "rupees", "", ""),
    "₣": ("franc", "francs", "centime", "centimes"),
    "¢": ("cent", "cents", "", ""),
}
_CODES = {
    "USD": ("US", "$"), "EUR": ("", "€"), "GBP": ("", "£"), "JPY": ("", "¥"), "KRW": ("", "₩"),
    "INR": ("", "₹"), "CAD": ("Canadian", "$"), "AUD": ("Australian", "$"),
    "HKD": ("Hong Kong", "$"), "CHF": ("Swiss", "₣"), "NZD": ("New Zealand", "$"),
}  # fmt: skip
# Letters before a dollar sign.
_COUNTRIES = {
    "US": "US", "AU": "Australian", "A": "Australian", "CA": "Canadian", "C": "Canadian",
    "HK": "Hong Kong", "NZ": "New Zealand", "S": "Singapore",
}  # fmt: skip
_SCALES = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion"} | {
    word: word for word in ("thousand", "million", "billion", "trillion")
}
_SIGNS = "$€£¥₩₹"
_SCALE = rf"(?i:{'|'.join(sorted(_SCALES, key=len, reverse=True))})\b"
_MONEY = re.compile(
    rf"(?P<article>\b[Aa]n?\s)?(?:\b(?P<country>{'|'.join(_COUNTRIES)})(?=\$))?"
    rf"(?:(?P<before>[{_SIGNS}])|\b(?P<code>{'|'.join(_CODES)})\s?)\s?(?P<amount>{NUMBER})"
    rf"(?:[\s-]?(?P<scale>{_SCALE}))?(?P<noun>\s(?=[a-z]))?"
    rf"|(?P<amount_first>{NUMBER})\s?(?:(?P<after>[{_SIGNS}¢])(?![\d.])|"
    rf"(?P<code_after>{'|'.join(_CODES)})\b)"
)
# "$5 to 10" and "$1 to 2 million": the sign stands for both.
_MONEY_RANGE = re.compile(
    rf"([{_SIGNS}])({NUMBER}) to (?={NUMBER}(?![\w%]|\s?(?:[{_SIGNS}%]|to\b)))"
)

_PERIODS = {
    "mo": "month", "yr": "year", "wk": "week", "d": "day", "hr": "hour", "h": "hour",
    "min": "minute", "kg": "kilogram", "lb": "pound", "GB": "gigabyte", "month": "month",
    "year": "year", "week": "week", "day": "day", "hour": "hour", "night": "night",
    "person": "person",
}  # fmt: skip
_RATE = re.compile(rf"([{_SIGNS}]\s?{NUMBER})\s?/\s?({'|'.join(_PERIODS)})\b")

# The unit, and the unit that divides it.
_UNITS = {
    "km/h": ("kilometer", "hour"), "kmh": ("kilometer", "hour"), "kph": ("kilometer", "hour"),
    "mph": ("mile", "hour"), "m/s2": ("meter", "second squared"),
    "m/s squared": ("meter", "second squared"), "m/s": ("meter", "second"),
    "MB/s": ("megabyte", "second"), "GB/s": ("gigabyte", "second"),
    "mbps": ("megabit", "second"), "Mbps": ("megabit", "second"), "Gbps": ("gigabit", "second"),
    "kbps": ("kilobit", "second"), "fps": ("frame", "second"), "dpi": ("dot", "inch"),
    "rpm": ("revolution", "minute"), "bpm": ("beat", "minute"), "psi": ("pound", "square inch"),
    "g/cm3": ("gram", "cubic centimeter"), "mg/l": ("milligram", "liter"),
    "km": ("kilometer", ""), "m": ("meter", ""), "dm": ("decimeter", ""), "cm": ("centimeter", ""),
    "mm": ("millimeter", ""), "µm": ("micrometer", ""), "μm": ("micrometer", ""),
    "nm": ("nanometer", ""), "m2": ("square meter", ""), "km2": ("square kilometer", ""),
    "cm2": ("square centimeter", ""), "mm2": ("square millimeter", ""),
    "m3": ("cubic meter", ""), "km3": ("cubic kilometer", ""), "cm3": ("cubic centimeter", ""),
    "ft2": ("square foot", ""), "ft": ("foot", ""), "mi": ("mile", ""), "yd": ("yard", ""),
    "ha": ("hectare", ""), "kg": ("kilogram", ""), "KG": ("kilogram", ""), "g": ("gram", ""),
    "mg": ("milligram", ""), "µg": ("microgram", ""), "μg": ("microgram", ""),
    "lb": ("pound", ""), "lbs": ("pound", ""), "oz": ("ounce", ""), "tbsp": ("tablespoon", ""),
    "tsp": ("teaspoon", ""), "l": ("liter", ""), "L": ("liter", ""), "dl": ("deciliter", ""),
    "cl": ("centiliter", ""), "ml": ("milliliter", ""), "mL": ("milliliter", ""),
    "h": ("hour", ""), "hr": ("hour", ""), "hrs": ("hour", ""), "min": ("minute", ""),
    "mins": ("minute", ""), "sec": ("second", ""), "secs": ("second", ""), "s": ("second", ""),
    "ms": ("millisecond", ""), "µs": ("microsecond", ""), "μs": ("microsecond", ""),
    "ns": ("nanosecond", ""), "KB": ("kilobyte", ""), "kB": ("kilobyte", ""),
    "MB": ("megabyte", ""), "GB": ("gigabyte", ""), "TB": ("terabyte", ""),
    "Mb": ("megabit", ""), "Gb": ("gigabit", ""), "MP": ("megapixel", ""),
    "Hz": ("hertz", ""), "kHz": ("kilohertz", ""),
    "MHz": ("megahertz", ""), "GHz": ("gigahertz", ""), "W": ("watt", ""), "kW": ("kilowatt", ""),
    "MW": ("megawatt", ""), "GW": ("gigawatt", ""), "kWh": ("kilowatt hour", ""),
    "Wh": ("watt hour", ""), "V": ("volt", ""), "kV": ("kilovolt", ""),
    "mAh": ("milliampere hour", ""), "mA": ("milliampere", ""), "N": ("newton", ""),
    "J": ("joule", ""), "kJ": ("kilojoule", ""), "cal": ("calorie", ""),
    "kcal": ("kilocalorie", ""), "Pa": ("pascal", ""), "hPa": ("hectopascal", ""),
    "kPa": ("kilopascal", ""), "dB": ("decibel", ""), "mol": ("mole", ""), "Ω": ("ohm", ""),
    "kΩ": ("kiloohm", ""),
}  # fmt: skip
_LONGEST_FIRST = sorted(map(re.escape, _UNITS), key=len, reverse=True)
# A fraction that is words already, such as "four and a half", may stand in place of the number.
_SAID = r"a half|one half|one quarter|three quarters|one third|two thirds"
_MEASURE = re.compile(
    rf"(?P<article>\b[Aa]n?\s)?(?<![A-Za-z])(?P<number>{NUMBER}|(?<=\s)(?:{_SAID}))"
    rf"(?P<scale>\s(?:thousand|[mbtr]+illion))?(?P<join>[\s-]?)"
    rf"(?P<unit>{'|'.join(_LONGEST_FIRST)})(?![\w/'])(?P<noun>\s(?=[a-z]))?"
)
# A number like a year is an amount where a measure follows.
_AMOUNT_BEFORE_RANGE = re.compile(
    rf"(?<![\w.,])\d{{4}}(?= to {NUMBER}\s?(?:{'|'.join(_LONGEST_FIRST)})(?![\w/']))"
)
_PER_UNIT = re.compile(r"(?<=\d)\s?/\s?(kg|lb|km|mi|h|hr|min)\b")
_FEET = re.compile(r"(?<![\w'])(\d{1,2})'\s?(\d{1,2})(?:\"|''|(?=\s+tall))")
_INCHES = re.compile(
    rf"(?P<number>{NUMBER})(?:\"(?=\s|$|[,.])(?<!\d\"\")|\sin(?=[.,;)]|$|\s(?:of|long|wide|tall|high)\b))"
)

DEGREES = re.compile(rf"({NUMBER})\s?[°º]\s?([CF]\b)?")
PERCENT = re.compile(rf"({NUMBER})\s?%")

_DENOMINATORS = "2|3|4|5|6|7|8|9|10|12|16|20|32|64|100"
FRACTION = re.compile(rf"(?<![\w/.,])(?:(\d+)\s+)?((\d+)/({_DENOMINATORS}))(?![\d/]|\.\d)")


_PARTS = {
    "2": "halves", "3": "thirds", "4": "quarters", "5": "fifths", "6": "sixths", "8": "eighths",
    "9": "ninths", "10": "tenths",
}  # fmt: skip
_MIXED = re.compile(r"(?<![\w/.,])(\d{1,3}) (\d{1,3})/(\d{1,3})(?![\w/]|\.\d)")
# A numerator up to twelve may be a month.
_IMPROPER = re.compile(r"(?<![\w/.,])(1[3-9]|[2-9]\d)/([34568])(?![\w/]|\.\d)")
_OVER = re.compile(r"(?<![\w/.,])(\d{1,6})\s?/\s?(3[3-9]|4\d|5[1-9]|[6-9]\d|\d{3,6})(?![\w/]|\.\d)")


def read_money(text: str) -> str:
    """Return ``text`` with amounts of money as words: "$5.20" is five dollars and twenty cents."""
    text = _RATE.sub(lambda match: f"{match[1]} per {_PERIODS[match[2]]}", text)
    text = _MONEY_RANGE.sub(r"\2 to \1", text)
    return _MONEY.sub(_say_money, text)


def read_other_fractions(text: str) -> str:
    """Return ``text`` with the fractions that are neither dates nor sayings such as 24/7."""
    text = _MIXED.sub(_say_mixed, text)
    text = _IMPROPER.sub(lambda match: f"{english_number(match[1])} {_PARTS[match[2]]}", text)
    return _OVER.sub(
        lambda match: f"{english_number(match[1])} over {english_number(match[2])}", text
    )


def _say_mixed(match: re.Match[str]) -> str:
    whole, above, below = match.groups()
    part = f" {_PARTS[below]}" if below in _PARTS else f" over {english_number(below)}"
    return f"{english_number(whole)} and {english_number(above)}{part}"


def _say_money(match: re.Match[str]) -> str:
    code = match["code"] or match["code_after"]
    country, sign = _CODES[code] if code else ("", match["before"] or match["after"])
    if match["country"]:
        country = _COUNTRIES[match["country"]]
    one, many, one_part, parts = _CURRENCIES[sign]
    if country:
        one, many = f"{country} {one}", f"{country} {many}"
    amount = (match["amount"] or match["amount_first"]).replace(",", "")
    article, after = match["article"] or "", match["noun"] or ""
    if article and after:  # "a $10 bill"
        many = one
    if match["scale"]:
        return f"{article}{english_number(amount)} {_SCALES[match['scale'].lower()]} {many}{after}"
    whole, _, decimals = amount.partition(".")
    if len(decimals) > 2 and not decimals[2:].strip("0"):
        decimals = decimals[:2]
    if not 1 <= len(decimals) <= 2 or not parts:
        return f"{article}{english_number(amount)} {one if amount == '1' else many}{after}"
    major, minor = int(whole or "0"), int(decimals.ljust(2, "0"))
    said = [f"{english_number(str(major))} {one if major == 1 else many}"] if major else []
    if minor or not major:
        said.append(f"{english_number(str(minor))} {one_part if minor == 1 else parts}")
    return article + " and ".join(said) + after


def read_measures(text: str) -> str:
    """Return ``text`` with measures as words: "60 km/h" is sixty kilometers per hour."""
    text = _FEET.sub(_say_feet, text)
    text = _AMOUNT_BEFORE_RANGE.sub(lambda match: english_number(match[0]), text)
    text = _PER_UNIT.sub(lambda match: f" per {_UNITS[match[1]][0]}", text)
    text = _MEASURE.sub(_say_measure, text)
    return _INCHES.sub(_say_inches, text)


def _say_feet(match: re.Match[str]) -> str:
    feet = f"{english_number(match[1])} {'foot' if match[1] == '1' else 'feet'}"
    return f"{feet} {english_number(match[2])}"


def _say_inches(match: re.Match[str]) -> str:
    unit = "inch" if match["number"] == "1" else "inches"
    return f"{english_number(match['number'])} {unit}"


def _say_measure(match: re.Match[str]) -> str:
    unit, divisor = _UNITS[match["unit"]]
    number, article, after = match["number"], match["article"] or "", match["noun"] or ""
    # "a 5 km run" and "a 5-km run"
    is_adjective = bool(after) and (bool(article) or match["join"] == "-")
    if (number != "1" or match["scale"]) and not is_adjective:
        unit = _plural(unit)
    said = english_number(number) if number[-1].isdigit() else number
    said += match["scale"] or ""
    return f"{article}{said} {unit}" + (f" per {divisor}" if divisor else "") + after


def _plural(unit: str) -> str:
    if unit.endswith(("hertz", "square foot")):
        return unit.replace("foot", "feet")
    return "feet" if unit == "foot" else unit + "s"


def say_degrees(match: re.Match[str]) -> str:
    """Return the words for a match of ``DEGREES``: "20 °C" is twenty degrees Celsius."""
    scale = {"C": " Celsius", "F": " Fahrenheit", None: " "}[match[2]]
    return f"{english_number(match[1])} degree{'' if match[1] == '1' else 's'}{scale}"


def say_percent(match: re.Match[str]) -> str:
    """Return the words for a match of ``PERCENT``."""
    return f"{english_number(match[1])} percent "
