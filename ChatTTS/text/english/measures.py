"""Read measures, degrees and percentages in English."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..readers import Rule, either, rewrite, rule
from ..spans import span
from .amounts import NUMBER

_SIMPLE = {
    "km": "kilometer", "m": "meter", "dm": "decimeter", "cm": "centimeter", "mm": "millimeter",
    "nm": "nanometer", "ft": "foot", "mi": "mile", "yd": "yard", "m2": "square meter",
    "km2": "square kilometer", "cm2": "square centimeter", "mm2": "square millimeter",
    "m3": "cubic meter", "km3": "cubic kilometer", "cm3": "cubic centimeter",
    "cc": "C C", "ft2": "square foot", "ft3": "cubic foot", "sqft": "square foot",
    "sf": "square foot", "kts": "knot", "Gi": "gibibyte",
    "sq ft": "square foot", "sq mi": "square mile", "sq m": "square meter",
    "sq km": "square kilometer", "cu ft": "cubic foot", "ha": "hectare", "kg": "kilogram",
    "KG": "kilogram", "g": "gram", "mg": "milligram", "ng": "nanogram", "lb": "pound",
    "lbs": "pound", "oz": "ounce", "fl oz": "fluid ounce", "tbsp": "tablespoon",
    "Tbsp": "tablespoon", "bps": "basis point",
    "tsp": "teaspoon", "gal": "gallon", "qt": "quart", "pt": "pint", "l": "liter", "L": "liter",
    "dl": "deciliter", "dL": "deciliter", "cl": "centiliter", "ml": "milliliter",
    "mL": "milliliter", "h": "hour", "hr": "hour", "hrs": "hour", "min": "minute",
    "mins": "minute", "sec": "second", "secs": "second", "s": "second", "ms": "millisecond",
    "ns": "nanosecond", "KB": "kilobyte", "kB": "kilobyte", "MB": "megabyte", "GB": "gigabyte",
    "TB": "terabyte", "PB": "petabyte", "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte",
    "TiB": "tebibyte", "kb": "kilobit", "Mb": "megabit", "Gb": "gigabit", "Mbit": "megabit",
    "Gbit": "gigabit", "kbit": "kilobit", "MP": "megapixel", "Hz": "hertz", "kHz": "kilohertz",
    "MHz": "megahertz", "GHz": "gigahertz", "THz": "terahertz", "W": "watt", "mW": "milliwatt",
    "kW": "kilowatt", "MW": "megawatt", "GW": "gigawatt", "kWh": "kilowatt hour",
    "MWh": "megawatt hour", "GWh": "gigawatt hour", "TWh": "terawatt hour", "Wh": "watt hour",
    "V": "volt", "mV": "millivolt", "kV": "kilovolt", "mAh": "milliampere hour",
    "Ah": "ampere hour", "mA": "milliampere", "N": "newton", "kN": "kilonewton",
    "Nm": "newton meter", "J": "joule", "kJ": "kilojoule", "MJ": "megajoule", "eV": "electronvolt",
    "keV": "kiloelectronvolt", "MeV": "megaelectronvolt", "GeV": "gigaelectronvolt",
    "TeV": "teraelectronvolt", "cal": "calorie", "kcal": "kilocalorie", "Pa": "pascal",
    "hPa": "hectopascal", "kPa": "kilopascal", "MPa": "megapascal", "mbar": "millibar",
    "dB": "decibel", "mol": "mole", "mmol": "millimole", "Ω": "ohm", "kΩ": "kiloohm",
    "MΩ": "megaohm", "nF": "nanofarad", "pF": "picofarad", "mH": "millihenry",
    "mcg": "microgram", "mEq": "milliequivalent", "atm": "atmosphere", "ly": "light year",
    "AU": "astronomical unit", "ac": "acre", "yds": "yard", "qts": "quart", "gals": "gallon",
    "tbs": "tablespoon", "lb-ft": "pound foot", "ft-lb": "foot pound", "ft-lbs": "foot pound",
    "lbf": "pound of force", "sts": "stitch", "rnds": "round", "rebs": "rebound", "reb": "rebound",
    "asts": "assist", "ast": "assist", "blks": "block", "stls": "steal", "cals": "calorie",
    "ka": "thousand year", "kyr": "thousand year", "Myr": "million year", "Gyr": "billion year",
    "Mpc": "megaparsec", "kpc": "kiloparsec",
    "px": "pixel", "bbl": "barrel", "pp": "percentage point", "pts": "point",
    "yr": "year", "yrs": "year", "wk": "week", "wks": "week", "mos": "month", "hp": "horsepower",
    "mmHg": "millimeter of mercury", "IU": "international unit", "kt": "knot", "kn": "knot",
    **{
        f"{micro}{unit}": f"micro{name}"
        for micro in "µμ"
        for unit, name in (
            ("m", "meter"), ("g", "gram"), ("s", "second"), ("F", "farad"), ("l", "liter"),
            ("L", "liter"), ("A", "ampere"), ("V", "volt"), ("W", "watt"), ("H", "henry"),
            ("mol", "mole"),
        )
    },
}  # fmt: skip
_QUOTIENTS = {
    "kmh": ("kilometer", "hour"), "kph": ("kilometer", "hour"), "mph": ("mile", "hour"),
    "m/s2": ("meter", "second squared"), "m/s squared": ("meter", "second squared"),
    "mbps": ("megabit", "second"), "Mbps": ("megabit", "second"), "Gbps": ("gigabit", "second"),
    "kbps": ("kilobit", "second"), "MBps": ("megabyte", "second"), "fps": ("frame", "second"),
    "dpi": ("dot", "inch"), "ppi": ("pixel", "inch"), "rpm": ("revolution", "minute"),
    "bpm": ("beat", "minute"), "psi": ("pound", "square inch"), "wpm": ("word", "minute"),
    "mpg": ("mile", "gallon"), "ppm": ("part", "million"), "ppb": ("part", "billion"),
    "ppg": ("point", "game"), "rpg": ("rebound", "game"), "apg": ("assist", "game"),
    "rps": ("request", "second"), "qps": ("query", "second"),
}  # fmt: skip
_DIVISORS = {
    **_SIMPLE, "d": "day", "day": "day", "wk": "week", "week": "week", "mo": "month",
    "month": "month", "yr": "year", "y": "year", "year": "year", "hour": "hour",
    "minute": "minute", "second": "second", "gallon": "gallon", "night": "night",
    "person": "person", "serving": "serving", "dose": "dose", "lap": "lap",
}  # fmt: skip
# Not in the plural.
_UNCOUNTED = ("hertz", "horsepower", "C C")
_IRREGULAR = {
    "foot": "feet", "query": "queries", "stitch": "stitches",
    "millimeter of mercury": "millimeters of mercury",
}  # fmt: skip


# A fraction that is words already, such as "four and a half", may stand in place of the number.
_SAID = r"a half|one half|one quarter|three quarters|one third|two thirds"
UNIT = either([*_SIMPLE, *_QUOTIENTS])
DIVISOR = either(_DIVISORS)
_MEASURE = re.compile(
    rf"(?P<article>\b[Aa]n?\s)?(?<![A-Za-z0-9])(?P<number>{NUMBER}|(?<!\w)(?:{_SAID}))"
    rf"(?P<scale>\s(?:thousand|[mbtr]+illion))?(?P<join>[\s-]?)(?P<unit>{UNIT})"
    rf"(?:\.?\s?/\s?(?P<count>[\d,]{{1,6}}\s?)?(?P<divisor>{DIVISOR})(?:\s?/\s?(?P<second>{DIVISOR}))?)?"
    rf"(?![\w']|/[A-Za-z]{{1,4}}\b)(?P<noun>\s(?=[a-z]))?"
)
# A number like a year is an amount where a measure follows.
_AMOUNT_BEFORE_RANGE = re.compile(
    rf"(?<![\w.,])\d{{4}}(?= to {NUMBER}\s?(?:{either(_SIMPLE)})(?![\w/']))"
)
_PER: list[Rule] = [
    rule(
        rf"(?<=\d)\s?/\s?({either(_DIVISORS)})(?![\w/'])",
        lambda match: f" per {_DIVISORS[match[1]]}",
    ),
    rule(
        r"(?<=\bper )(kg|mg|lb|oz|qt|gal|mi|km|ft|hr|min|sec|yr|mo|wk|mL|ml)\b(?!\.?\w)"
        r"(?:\.(?=\s[a-z]))?",
        lambda match: _DIVISORS[match[1]],
    ),
    rule(
        r"(?<=\d )([a-z]{3,}s)\.?\s?/\s?(\d{1,3}\s?)?(s|sec|min|h|hr|hour|day|week|month|year)s?\b",
        lambda match: f"{match[1]} per {_counted_divisor(match[2] or '', match[3])}",
    ),
    rule(
        rf"(\bper [a-z]{{1,12}}|\b[a-z]{{3,9}}(?=/(?:mi|km)\b))/({either(_DIVISORS)})(?!\w)",
        lambda match: f"{match[1]} per {_DIVISORS[match[2]]}",
    ),
    # A unit that is not known: "3.5 deg2".
    rule(r"(?<=\d )(?<!\d{4} )(?!mp|v|h)([a-z]{2,4})2(?![\w.])", r"\1 squared"),
]
_FEET = re.compile(r"(?<![\w'])(\d{1,2})'\s?(\d{1,2})(?:\"|''|(?=\s+tall))")
# A number like a year has no inches: it ends a quotation that began on another line.
_INCHES = re.compile(
    rf"(?<![\w.,])(?P<number>(?!\d{{4}}\b){NUMBER})(?:\"(?!\w|\")|"
    r"[\s-]?in(?:\.?(?=\s(?:of|long|wide|tall|high|deep)\b)|\.(?=\s[a-z])|(?=[.,;)]|$)))"
    # "a 24\" screen", but "it is 24\" wide"
    r"(?P<noun>(?=\s(?!(?:and|or|by|x|to|of|from|in|at|on|wide|long|tall|high|deep|thick|apart|above|below)\b)[a-z]))?"
)
_ARTICLE = re.compile(r"\b(?:[Tt]he|[Aa]n?|[Tt]his|[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Oo]ur)\s\Z")
_LOOK_BACK = 8  # characters; longer than any article
_SIGNED = {
    "%": "percent", "‰": "per mille", "°": "degrees", "°C": "degrees Celsius",
    "°F": "degrees Fahrenheit", "°K": "degrees Kelvin",
}  # fmt: skip


def read_measures(text: str) -> str:
    """Return ``text`` with measures as words: "60 km/h" is sixty kilometers per hour."""
    text = _FEET.sub(_say_feet, text)
    text = _INCHES.sub(_say_inches, text)
    text = _AMOUNT_BEFORE_RANGE.sub(lambda match: english_number(match[0]), text)
    return rewrite(_MEASURE.sub(_say_measure, text), _PER)


def _say_feet(match: re.Match[str]) -> str:
    feet = f"{english_number(match[1])} {'foot' if match[1] == '1' else 'feet'}"
    return f"{feet} {english_number(match[2])}"


def _say_inches(match: re.Match[str]) -> str:
    is_adjective = match["noun"] is not None and _ARTICLE.search(
        match.string, max(0, match.start() - _LOOK_BACK), match.start()
    )
    unit = "inch" if match["number"] == "1" or is_adjective else "inches"
    return f"{english_number(match['number'])} {unit}"


def _say_measure(match: re.Match[str]) -> str:
    unit, divisor = _QUOTIENTS.get(match["unit"], (_SIMPLE.get(match["unit"], ""), ""))
    number, article, after = match["number"], match["article"] or "", match["noun"] or ""
    # "a 5 km run" and "a 5-km run"
    is_adjective = bool(after) and (bool(article) or match["join"] == "-")
    # "half a cup" is less than one, "two and a half cups" are more
    is_more = match.string.endswith("and ", 0, match.start("number"))
    is_part = not number[-1].isdigit() and not is_more
    if (number != "1" or match["scale"]) and not is_adjective and not is_part:
        unit = _plural(unit)
    said = english_number(number) if number[-1].isdigit() else number
    said += match["scale"] or ""
    if match["divisor"]:
        divisor = _counted_divisor(match["count"] or "", match["divisor"])
    if match["second"]:
        divisor += f" per {_DIVISORS[match['second']]}"
    return f"{article}{said} {unit}" + (f" per {divisor}" if divisor else "") + after


def _counted_divisor(count: str, divisor: str) -> str:
    said = _DIVISORS[divisor]
    if not (count := count.strip()):
        return said
    return f"{english_number(count)} {said if count == '1' else _plural(said)}"


def say_units(unit: str | None, divisor: str | None) -> str:
    """Return " meters per second" for "m" and "s"; either may be missing."""
    one, per = _QUOTIENTS.get(unit or "", (_SIMPLE.get(unit or "", ""), ""))
    per = _DIVISORS[divisor] if divisor else per
    return (f" {_plural(one)}" if one else "") + (f" per {per}" if per else "")


def _plural(unit: str) -> str:
    if unit.endswith(_UNCOUNTED):
        return unit
    *before, last = unit.split(" ")
    return _IRREGULAR.get(unit) or " ".join([*before, _IRREGULAR.get(last, f"{last}s")])


def _say_signed(match: re.Match[str]) -> str:
    said = _SIGNED[re.sub(r"\s", "", match["sign"])]
    said = said.replace("degrees", "degree") if match["number"] == "1" else said
    divisor = f" per {_DIVISORS[match['divisor']]}" if match["divisor"] else ""
    return f"{english_number(match['number'])} {said}{divisor}"


DEGREES_AND_PERCENTAGES = (
    span(
        "degrees and percentages",
        rf"(?P<number>{NUMBER})\s?(?P<sign>[%‰]|°(?:\s?[CFK]\b)?)"
        rf"(?:\s?/\s?(?P<divisor>{DIVISOR})(?![\w/]))?",
        _say_signed,
    ),
    span("degrees of a scale", r"°[CF]\b", lambda match: _SIGNED[match[0]]),
)
