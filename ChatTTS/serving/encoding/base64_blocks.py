"""Base64 of long sounds, block by block: one call for all would hold Python's lock too long."""

from __future__ import annotations

import base64
import binascii

_BLOCK = 3 << 14  # bytes; a multiple of three, so that only the last block is padded
_LETTERS = _BLOCK // 3 * 4


def to_base64(data: bytes) -> str:
    """Return the text of some bytes."""
    blocks = range(0, len(data), _BLOCK)
    return "".join(base64.b64encode(data[at : at + _BLOCK]).decode("ascii") for at in blocks)


def from_base64(text: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        ValueError: it is no base64.
    """
    if not text.isascii():
        raise ValueError("it has letters that base64 does not have")
    parts = []
    for at in range(0, len(text), _LETTERS):
        part = base64.b64decode(text[at : at + _LETTERS], validate=True)
        if len(part) < _BLOCK and at + _LETTERS < len(text):
            raise binascii.Error("it is padded before its end")
        parts.append(part)
    return b"".join(parts)
