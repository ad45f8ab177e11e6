"""Write out the texts of SSML's ``say-as``, so that a reader says them as they are meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_HAN = re.compile(r"[\u3400-\u9fff]")
_NUMBER = re.compile(r"\d{1,15}")


def say_as(text: str, kind: str, format: str = "") -> str | None:
    """Return the text as it is read for ``interpret-as``; ``None`` if it cannot be read so.

    Args:
        kind: ``characters``, ``digits``, ``date``, ``telephone`` or ``ordinal``.
        format: of a date, the order of ``y``, ``m`` and ``d``; ``ymd`` for ISO dates by default.
    """
    if kind == "date":
        return _date(text, format)
    reader = _READERS.get(kind)
    return None if reader is None else reader(text)


def _characters(text: str) -> str | None:
    return ", ".join(_digit(mark.upper()) for mark in text if mark.isalnum()) or None


def _digits(text: str) -> str | None:
    digits = [mark for mark in text if not mark.isspace() and mark not in ",.-"]
    if not digits or not all(mark.isascii() and mark.isdigit() for mark in digits):
        return None
    return " ".join(_digit(mark) for mark in digits)


def _telephone(text: str) -> str | None:
    """Return the digits in the groups of the number, with a short pause between them."""
    groups = re.findall(r"\+?\d+", text)
    if not groups or re.search(r"[^\d\s()+./-]", text):
        return None
    spoken = [" ".join(_digit(mark) for mark in group if mark != "+") for group in groups]
    return ("plus " if groups[0].startswith("+") else "") + ", ".join(spoken)


def _ordinal(text: str) -> str | None:
    number = text.strip().rstrip(".")
    if _HAN.search(text):
        return text
    if not number.isascii() or not _NUMBER.fullmatch(number):
        return None
    value = int(number)
    teen = 10 <= value % 100 <= 20
    return f"{value}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(value % 10, 'th')}"


def _date(text: str, format: str) -> str | None:
    if _HAN.search(text):
        return text
    parts = re.findall(r"\d{1,4}", text)
    order = format.lower() or ("ymd" if parts and len(parts[0]) == 4 else "mdy")
    if len(parts) != len(order) or set(order) - set("ymd") or len(set(order)) != len(order):
        return None
    values = dict(zip(order, map(int, parts), strict=True))
    month, day = values.get("m"), values.get("d")
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):
        return None
    if day is not None and month is None:
        return None
    spoken = "" if month is None else _MONTHS[month - 1]
    spoken += "" if day is None else f" {_ordinal(str(day))}"
    year = values.get("y")
    return spoken if year is None else f"{spoken}{', ' if day else ' '}{year}".strip()


def _digit(mark: str) -> str:
    return _DIGITS[int(mark)] if mark.isascii() and mark.isdigit() else mark


_READERS: Mapping[str, Callable[[str], str | None]] = {
    "characters": _characters,
    "digits": _digits,
    "telephone": _telephone,
    "ordinal": _ordinal,
}
