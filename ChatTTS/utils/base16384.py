"""Base16384: bytes as text of Chinese characters, in which voices are written down.

Every 14 bits, from the highest, are one of the 16 384 characters from U+4E00, so that seven bytes
are four characters. Bits of zero fill the last character. Where the number of bytes is no multiple
of seven, one more character, U+3D00 plus the remainder, ends the text.
"""

from __future__ import annotations

import re

# The texts that are not empty.
TEXT = re.compile(r"[\u4e00-\u8dff]+[\u3d01-\u3d06]?")

_FIRST, _REMAINDER = 0x4E00, 0x3D00
_BYTES, _CHARACTERS = 7, 4  # of a group
_BITS, _MASK = 14, (1 << 14) - 1  # of a character


class IncompleteError(ValueError):
    """A text without its last characters."""


def encode(data: bytes) -> str:
    """Return the text of ``data``."""
    filled = data + bytes(-len(data) % _BYTES)
    characters: list[int] = []
    for start in range(0, len(data), _BYTES):
        group = int.from_bytes(filled[start : start + _BYTES], "big")
        characters += (group >> 42, group >> 28 & _MASK, group >> 14 & _MASK, group & _MASK)
    text = "".join([chr(_FIRST + value) for value in characters[: _characters(len(data))]])
    remainder = len(data) % _BYTES
    return text + chr(_REMAINDER + remainder) if remainder else text


def decode(text: str) -> bytes:
    """Return the bytes of ``text``. Bits that only fill its last character are not compared.

    Raises:
        IncompleteError: ``text`` ends within a group of characters, and without a remainder.
        ValueError: ``text`` has other characters, or more or fewer than its remainder needs.
    """
    if text and TEXT.fullmatch(text) is None:
        raise ValueError("base16384 has characters from U+4E00 to U+8DFF, and U+3D01 to U+3D06")
    values = [ord(character) - _FIRST for character in text]
    remainder = ord(text[-1]) - _REMAINDER if values and values[-1] < 0 else 0
    count = len(values) // _CHARACTERS * _BYTES
    if remainder:
        values.pop()
        count = (len(values) - 1) // _CHARACTERS * _BYTES + remainder
    elif len(values) % _CHARACTERS:
        raise IncompleteError("the text ends within a group of characters")
    if _characters(count) != len(values):
        raise ValueError(f"{len(values)} characters do not end in {remainder} bytes")
    values += [0] * (-len(values) % _CHARACTERS)
    groups = zip(*[iter(values)] * _CHARACTERS, strict=True)
    words = ((a << 42 | b << 28 | c << 14 | d).to_bytes(_BYTES, "big") for a, b, c, d in groups)
    return b"".join(words)[:count]


def _characters(count: int) -> int:
    """Return how many characters hold ``count`` bytes, without the remainder."""
    return -(-8 * count // _BITS)
