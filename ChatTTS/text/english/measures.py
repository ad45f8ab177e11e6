"""Read measures, degrees and percentages in English."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..readers import either
from ..spans import before, span
from .amounts import NUMBER

_PREFIXES = {
    " ": "", "k": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta", "h": "hecto",
    "d": "deci", "c": "centi", "m": "milli", "µ": "micro", "μ": "micro", "n": "nano", "p": "pico",
    "u": "micro",
}  # fmt: skip
# Units, with the prefixes that people write before them; a space stands for none.
_METRIC = {
    "m": ("{}meter", " kdcmµμn"), "m2": ("square {}meter", " kcm"), "m3": ("cubic {}meter", " kcm"),
    "g": ("{}gram", " kmµμun"), "l": ("{}liter", " dcmµμ"), "L": ("{}liter", " dmµμ"),
    "s": ("{}second", " mµμn"), "Hz": ("{}hertz", " kMGT"), "W": ("{}watt", " mµμkMG"),
    "Wh": ("{}watt hour", " kMGT"), "V": ("{}volt", " mµμk"), "A": ("{}ampere", "mµμ"),
    "Ah": ("{}ampere hour", " m"), "N": ("{}newton", " k"), "Nm": ("{}newton meter", " "),
    "J": ("{}joule", " kM"), "eV": ("{}electronvolt", " kMGT"), "cal": ("{}calorie", " k"),
    "Pa": ("{}pascal", " hkM"), "mol": ("{}mole", " mµμ"), "Ω": ("{}ohm", " kM"),
    "F": ("{}farad", "µμunp"), "H": ("{}henry", "mµμu"), "B": ("{}byte", "kMGTP"),
    "b": ("{}bit", "kMG"), "bit": ("{}bit", "kMG"),
}  # fmt: skip
_SIMPLE = {
    f"{prefix.strip()}{unit}": name.format(_PREFIXES[prefix])
    for unit, (name, prefixes) in _METRIC.items()
    for prefix in prefixes
} | {
    "ft": "foot", "mi": "mile", "yd": "yard", "cc": "C C", "ft2": "square foot",
    "ft3": "cubic foot", "sqft": "square foot", "sf": "square foot", "kts": "knot",
    "sq ft": "square foot", "sq mi": "square mile", "sq m": "square meter",
    "sq km": "square kilometer", "cu ft": "cubic foot", "ha": "hectare", "KG": "kilogram",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "fl oz": "fluid ounce", "tbsp": "tablespoon",
    "Tbsp": "tablespoon", "tbs": "tablespoon", "tsp": "teaspoon", "bps": "basis point",
    "gal": "gallon", "gals": "gallon", "qt": "quart", "qts": "quart", "pt": "pint", "h": "hour",
    "hr": "hour", "hrs": "hour", "min": "minute", "mins": "minute", "sec": "second",
    "secs": "second", "KB": "kilobyte", "Gi": "gibibyte", "KiB": "kibibyte", "MiB": "mebibyte",
    "GiB": "gibibyte", "TiB": "tebibyte", "MP": "megapixel", "mbar": "millibar", "dB": "decibel",
    "mcg": "microgram", "mEq": "milliequivalent", "atm": "atmosphere", "ly": "light year",
    "AU": "astronomical unit", "ac": "acre", "yds": "yard", "lb-ft": "pound foot",
    "ft-lb": "foot pound", "ft-lbs": "foot pound", "lbf": "pound of force", "sts": "stitch",
    "rnds": "round", "rebs": "rebound", "reb": "rebound", "asts": "assist", "ast": "assist",
    "blks": "block", "stls": "steal", "cals": "calorie", "ka": "thousand year",
    "kyr": "thousand year", "Myr": "million year", "Gyr": "billion year", "Mpc": "megaparsec",
    "kpc": "kiloparsec", "px": "pixel", "bbl": "barrel", "pp": "percentage point", "pts": "point",
    "yr": "year", "yrs": "year", "wk": "week", "wks": "week", "mos": "month", "hp": "horsepower",
    "mmHg": "millimeter of mercury", "IU": "international unit", "kt": "knot", "kn": "knot",
    "NM": "nautical mile", "%": "percent", "‰": "per mille", "°": "degree",
    "°C": "degree Celsius", "° C": "degree Celsius", "°F": "degree Fahrenheit",
    "° F": "degree Fahrenheit", "°K": "degree Kelvin", "° K": "degree Kelvin",
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
DIVISORS = {unit: name for unit, name in _SIMPLE.items() if unit[0] not in "%‰°"} | {
    "d": "day", "day": "day", "wk": "week", "week": "week", "mo": "month",
    "month": "month", "yr": "year", "y": "year", "year": "year", "hour": "hour",
    "minute": "minute", "second": "second", "gallon": "gallon", "night": "night",
    "person": "person", "serving": "serving", "dose": "dose", "lap": "lap",
}  # fmt: skip
# Not in the plural.
_UNCOUNTED = ("hertz", "horsepower", "C C", "percent", "per mille")
_IRREGULAR = {
    "foot": "feet", "query": "queries", "stitch": "stitches",
    "millimeter of mercury": "millimeters of mercury",
    "degree Celsius": "degrees Celsius", "degree Fahrenheit": "degrees Fahrenheit",
    "degree Kelvin": "degrees Kelvin",
}  # fmt: skip


UNITS = (*_SIMPLE, *_QUOTIENTS)
# "sq. ft." has stops.
UNIT = either(UNITS).replace("\\ ", r"\.?\s")
DIVISOR = either(DIVISORS)
# What a part stands, behind another value of it: "100nF/50V", "5A/250V".
_RATED = r"\d{1,4}(?:\.\d)?\s?[mkM]?(?:V|A|W|Hz|Ω)\b"
_UNIT = (
    rf"(?P<join>[\s-]?)(?P<unit>{UNIT})"
    rf"(?:\.?\s?/\s?(?!{_RATED})(?P<count>(?<!%/)(?<!% / )[\d,]{{1,6}}\s?)?"
    rf"(?P<divisor>{DIVISOR})(?:\s?/\s?(?P<second>{DIVISOR}))?)?"
    r"(?![\w']|/[A-Za-z]{1,4}\b|\.[A-Za-z]\b)(?:\.(?=\s[a-z]))?"
)
_SCALE = r"\s(?:thousand|[mbtr]+illion)"
# What other classes say: fractions, scales and foreign groups of digits.
_SAID_BEFORE = re.compile(
    rf"(?:(?P<part>(?<![\d/.-])(?<!\d )(?<!\d  )1?\d/\d{{1,2}})|/\d{{1,3}}|{_SCALE}|"
    r"\d\s?[kKmMbBt]n?|10\^[-−]?\d{1,3}|[. ',]\d{3}|,\d\d?)\Z"
)
_AT_SEA = re.compile(r"(?i)\b(?:seas?|kts?|knots|vsby|visibility|offshore|vessel|runway|coast)\b")
_ARTICLE = re.compile(r"\b[Aa]n?\s\Z")
_NOUN = re.compile(r"\.?\s[a-z]")
# A number like a year has no inches: it ends a quotation that began on another line.
_INCHES = re.compile(
    rf"(?:(?<![\w.,^])|(?<=\d[x×]))(?P<number>(?!\d{{4}}\b){NUMBER})(?:\"(?:in\b)?(?!\w|\")|"
    r"[\s-]?in(?:\.?(?=\s(?:of|long|wide|tall|high|deep)\b)|\.(?=\s[a-z])|(?=[.,;)]|$)))"
    # "a 24\" screen", but "it is 24\" wide"
    r"(?P<noun>(?=\s(?!(?:and|or|by|x|to|of|from|in|at|on|wide|long|tall|high|deep|thick|apart|above|below)\b)[a-z]))?"
)
_DETERMINER = re.compile(r"\b(?:[Tt]he|[Aa]n?|[Tt]his|[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Oo]ur)\s\Z")


def _say_inches(match: re.Match[str]) -> str:
    is_adjective = match["noun"] is not None and _DETERMINER.search(before(match))
    unit = "inch" if match["number"] == "1" or is_adjective else "inches"
    return f"{english_number(match['number'])} {unit}"


def _say_measure(match: re.Match[str]) -> str:
    number, scale = match["number"], match["scale"] or ""
    return english_number(number) + scale + _say_unit(match, number == "1" and not scale)


def _say_unit_behind(match: re.Match[str]) -> str | None:
    said = _SAID_BEFORE.search(before(match))
    return _say_unit(match, said["part"] is not None) if said else None


def _say_unit(match: re.Match[str], is_one: bool) -> str:
    """Return " kilometers per hour", or " kilometer" of "a 5 km run" and of one or a part of it."""
    written = match["unit"].replace(".", "")
    unit, divisor = _QUOTIENTS.get(written, (_SIMPLE.get(written, ""), ""))
    if written == "nm" and _AT_SEA.search(match.string):
        unit = "nautical mile"
    is_adjective = _NOUN.match(match.string, match.end()) and (
        match["join"] == "-" or _ARTICLE.search(before(match))
    )
    if not (is_one or is_adjective):
        unit = _plural(unit)
    if match["divisor"]:
        divisor = _counted_divisor(match["count"] or "", match["divisor"])
    if match["second"]:
        divisor += f" per {DIVISORS[match['second']]}"
    return f" {unit}" + (f" per {divisor}" if divisor else "")


def _counted_divisor(count: str, divisor: str) -> str:
    said = DIVISORS[divisor]
    return _amount(count.strip(), said) if count else said


def _amount(number: str, unit: str) -> str:
    return f"{english_number(number)} {unit if number == '1' else _plural(unit)}"


def _plural(unit: str) -> str:
    if unit.endswith(_UNCOUNTED):
        return unit
    *first, last = unit.split(" ")
    return _IRREGULAR.get(unit) or " ".join([*first, _IRREGULAR.get(last, f"{last}s")])


MEASURES = (
    span("inches", _INCHES, _say_inches),
    # A number like a year is an amount where a measure follows.
    span(
        "amounts before a measure",
        rf"(?<![\w.,])\d{{4}}(?=(?:\s?[-–]\s?|\sto\s){NUMBER}\s?(?:{either(_SIMPLE)})(?![\w/']))",
        lambda match: english_number(match[0]),
    ),
    span(
        "measures",
        rf"(?:(?<![A-Za-z0-9^])|(?<=\d[x×]))(?<!\d[:.])(?<!\^-)(?<![a-z]s/)(?P<number>{NUMBER})(?P<scale>{_SCALE})?{_UNIT}",
        _say_measure,
    ),
    span(
        "amperes of a part",
        rf"(?<![\w.])({NUMBER})\s?A(?=/\d)|(?<=V/)({NUMBER})\s?A\b",
        lambda match: _amount(match[1] or match[2], "ampere"),
    ),
    span("ratings", rf"(?<=[A-Za-zΩ])\s?/\s?(?={_RATED})", ", "),
    # "5/day", "3 calls/10 s", "6 ergs/s/cm2", "7:30 min/mi"
    span(
        "per unit",
        rf"(?:(?<=\d)\s?/\s?|(?<=[a-z])\.?\s?/\s?(?P<count>\d{{1,3}}\s?)?)(?P<unit>{DIVISOR})(?![\w'])",
        lambda match: f" per {_counted_divisor(match['count'] or '', match['unit'])}",
        without_digits=True,
        behind=r"(?:\d|\bper [a-z]{1,12}|\b(?:min|sec|hour)s?|\d [a-z]{2,30}s(?:/[a-z]{1,4})?)\Z",
    ),
    span(
        "units behind an amount",
        rf"(?:(?<=\d)|(?<=[A-Za-z])(?=[\s-])){_UNIT}",
        _say_unit_behind,
        without_digits=True,  # "ten thousand km"
    ),
    span("degrees of a scale", r"°[CF]\b", lambda match: _plural(_SIMPLE[match[0]])),
    span("pounds", r"(?<=\d\d)(?<!\*\d\d)(?<!\*\d{3})(?<!press \d\d)#(?![\w#])", " pounds"),
    span(
        "units behind per",
        rf"(?<=\bper )(?!.\b)({DIVISOR})(?!\.?\w)(?:\.(?=\s[a-z]))?",
        lambda match: DIVISORS[match[1]],
    ),
    # A unit that is not known: "3.5 deg2".
    span("unknown units", r"(?<=\d )(?<!\d{4} )(?!mp|v|h)([a-z]{2,4})2(?![\w.])", r"\1 squared"),
)
