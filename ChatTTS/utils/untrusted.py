"""Read files that may be anybody's: regular ones, no longer than makes sense, JSON that is clear.

A checkpoint from a stranger may have a pipe, a device or a file without an end in a file's place.
"""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import shown

# A published table or configuration has some hundred kB; parsing takes twenty times the bytes.
LONGEST_JSON = 4 << 20
# The longest published file, of weights, has 1 GB.
LONGEST_FILE = 16 << 30
# No size and no setting has more digits, and reading long numbers takes time by their square.
_MOST_DIGITS = 40

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path, most: int) -> BinaryIO:
    """Open a regular file of at most ``most`` bytes, unbuffered; never waits.

    Raises:
        FileNotFoundError: there is none.
        OSError: it is something else, too long or not readable; the text says what and why.
    """
    _check(path.stat(), most)  # before it is opened: that alone may wake a device
    # A pipe that took the file's place meanwhile would wait for its other end.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        _check(os.fstat(handle), most)
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb", buffering=0)


def read_bytes(path: Path, most: int) -> bytes:
    """All bytes of a regular file.

    Raises:
        OSError: as :func:`open_regular`.
    """
    with open_regular(path, most) as file:
        parts, left = [], most + 1
        while left and (part := file.read(left)):
            parts.append(part)
            left -= len(part)
    if not left:  # files of the system's own say 0 and go on
        raise OSError(_too_long(most))
    return b"".join(parts)


def read_json(path: Path, *, unique: bool = True) -> Any:
    """What a JSON file says.

    Args:
        unique: refuse objects that name a key twice, of which readers take this one or that.

    Raises:
        OSError: as :func:`open_regular`.
        ValueError: it is no JSON, or has numbers, texts or a depth that nothing needs.
    """
    return parse_json(read_bytes(path, LONGEST_JSON).decode("utf-8"), unique=unique)


def parse_json(text: str, *, unique: bool = True) -> Any:
    """What a JSON text says, as :func:`read_json` reads it.

    Raises:
        ValueError: as there.
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
        # Halves of a surrogate pair are no text that could be printed or spoken.
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
    raise ValueError(f"{name} is no number of JSON")


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
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {shown(key)} stands there twice")
            seen.add(key)
    return values
