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
    "¢": ("cent", "cents", "", ""),
}
_SCALES = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion"} | {
    word: word for word in ("thousand", "million", "billion", "trillion")
}
MONEY = re.compile(
    rf"(?:\b(?:US|AU|CA|HK))?(?P<before>[$€£¥])\s?(?P<amount>{NUMBER})"
    rf"(?:[\s-]?(?P<scale>(?i:{'|'.join(_SCALES)}))\b)?"
    rf"|(?P<amount_first>{NUMBER})\s?(?P<after>[$€£¥¢])(?![\d.])"
)

# The unit, and the unit that divides it.
_UNITS = {
    "km/h": ("kilometer", "hour"), "kmh": ("kilometer", "hour"), "mph": ("mile", "hour"),
    "m/s": ("meter", "second"), "MB/s": ("megabyte", "second"), "km": ("kilometer", ""),
    "m": ("meter", ""), "cm": ("centimeter", ""), "mm": ("millimeter", ""),
    "m2": ("square meter", ""), "km2": ("square kilometer", ""), "m3": ("cubic meter", ""),
    "ft": ("foot", ""), "mi": ("mile", ""), "kg": ("kilogram", ""), "g": ("gram", ""),
    "mg": ("milligram", ""), "lb": ("pound", ""), "lbs": ("pound", ""), "oz": ("ounce", ""),
    "l": ("liter", ""), "L": ("liter", ""), "ml": ("milliliter", ""), "h": ("hour", ""),
    "hr": ("hour", ""), "hrs": ("hour", ""), "min": ("minute", ""), "mins": ("minute", ""),
    "sec": ("second", ""), "secs": ("second", ""), "s": ("second", ""), "ms": ("millisecond", ""),
    "KB": ("kilobyte", ""), "kB": ("kilobyte", ""), "MB": ("megabyte", ""),
    "GB": ("gigabyte", ""), "TB": ("terabyte", ""), "Hz": ("hertz", ""), "kHz": ("kilohertz", ""),
    "MHz": ("megahertz", ""), "GHz": ("gigahertz", ""), "W": ("watt", ""), "kW": ("kilowatt", ""),
    "kWh": ("kilowatt hour", ""), "V": ("volt", ""),
}  # fmt: skip
_LONGEST_FIRST = sorted(map(re.escape, _UNITS), key=len, reverse=True)
MEASURE = re.compile(rf"({NUMBER})[\s-]?({'|'.join(_LONGEST_FIRST)})(?![\w/'])")

DEGREES = re.compile(rf"({NUMBER})\s?[°º]\s?([CF]\b)?")
PERCENT = re.compile(rf"({NUMBER})\s?%")

_DENOMINATORS = "2|3|4|5|6|7|8|9|10|12|16|20|32|64|100"
FRACTION = re.compile(rf"(?<![\w/.,])(?:(\d+)\s+)?((\d+)/({_DENOMINATORS}))(?![\d/]|\.\d)")


def say_money(match: re.Match[str]) -> str:
    """Return the words for a match of ``MONEY``: "$5.20" is five dollars and twenty cents."""
    one, many, one_part, parts = _CURRENCIES[match["before"] or match["after"]]
    amount = (match["amount"] or match["amount_first"]).replace(",", "")
    if match["scale"]:
        return f"{english_number(amount)} {_SCALES[match['scale'].lower()]} {many}"
    whole, _, decimals = amount.partition(".")
    if len(decimals) != 2 or not parts:
        return f"{english_number(amount)} {one if amount == '1' else many}"
    major, minor = int(whole or "0"), int(decimals)
    said = [f"{english_number(str(major))} {one if major == 1 else many}"] if major else []
    if minor or not major:
        said.append(f"{english_number(str(minor))} {one_part if minor == 1 else parts}")
    return " and ".join(said)


def say_measure(match: re.Match[str]) -> str:
    """Return the words for a match of ``MEASURE``: "60 km/h" is sixty kilometers per hour."""
    unit, divisor = _UNITS[match[2]]
    if match[1] != "1" and not unit.endswith("hertz"):
        unit = "feet" if unit == "foot" else unit + "s"
    return f"{english_number(match[1])} {unit}" + (f" per {divisor}" if divisor else "")


def say_degrees(match: re.Match[str]) -> str:
    """Return the words for a match of ``DEGREES``: "20 °C" is twenty degrees Celsius."""
    scale = {"C": " Celsius", "F": " Fahrenheit", None: " "}[match[2]]
    return f"{english_number(match[1])} degree{'' if match[1] == '1' else 's'}{scale}"


def say_percent(match: re.Match[str]) -> str:
    """Return the words for a match of ``PERCENT``."""
    return f"{english_number(match[1])} percent "
