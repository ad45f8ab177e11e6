"""Read untrusted files: only regular files of a bounded size, and only unambiguous JSON.

A checkpoint of unknown origin may have a pipe, a device or an endless file in place of a file.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import shown

# A published table or configuration has some hundred kB; parsing takes twenty times the memory.
LONGEST_JSON = 4 << 20
# The longest published file, of weights, has 1 GB.
LONGEST_FILE = 16 << 30
# No size and no setting has more digits. The time to parse a number grows with their square.
_MOST_DIGITS = 40

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path, most: int) -> BinaryIO:
    """Open a regular file of at most ``most`` bytes, unbuffered, without blocking.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: it is not regular, too long or not readable; the message has the reason.
    """
    _check(path.stat(), most)  # before opening, which alone may activate a device
    # A pipe that replaced the file meanwhile would block until its other end opens.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        _check(os.fstat(handle), most)
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb", buffering=0)


def read_bytes(path: Path, most: int) -> bytes:
    """Return all bytes of a regular file.

    Raises:
        OSError: as :func:`open_regular`.
    """
    with open_regular(path, most) as file:
        parts, left = [], most + 1
        while left and (part := file.read(left)):
            parts.append(part)
            left -= len(part)
    if not left:  # files such as those in /proc have size 0 and go on
        raise OSError(_too_long(most))
    return b"".join(parts)


def read_json(path: Path, *, unique: bool = True) -> Any:
    """Return the value of a JSON file.

    Args:
        unique: refuse objects with a repeated key, which parsers read in different ways.

    Raises:
        OSError: as :func:`open_regular`.
        ValueError: it is no JSON, or has unreasonable numbers, texts or nesting.
    """
    return parse_json(read_bytes(path, LONGEST_JSON).decode("utf-8"), unique=unique)


def parse_json(text: str, *, unique: bool = True) -> Any:
    """Return the value of a JSON text, checked as by :func:`read_json`.

    Raises:
        ValueError: as :func:`read_json`.
    """
    try:
        value = json.loads(
            text,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_unique if unique else None,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\u" in text:
        # Half of a surrogate pair cannot be printed or spoken, and raises here.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _check(status: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for fits, name in _KINDS if fits(status.st_mode)), "something else")
        raise OSError(f"it is {kind}, and must be a regular file")
    if status.st_size > most:
        raise OSError(_too_long(most))


def _too_long(most: int) -> str:
    return f"it is longer than {most} bytes, which no such file is"


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"the number {shown(text)} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"the number {text[:_MOST_DIGITS]}... is too large")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {shown(twice)} appears twice")
    return values
