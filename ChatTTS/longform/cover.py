"""Covers: which bytes are a picture, and its size."""

from __future__ import annotations

import struct

_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
# The most that encoders of video, by which covers are written, take for a side.
_LONGEST_SIDE = 16_384
NO_PICTURE = f"the cover is no JPEG or PNG of at most {_LONGEST_SIDE} pixels on each side"


def is_picture(data: bytes) -> bool:
    """Return whether this is a JPEG or PNG that can be a cover."""
    if not data.startswith((_PNG, _JPEG)):
        return False
    return all(1 <= side <= _LONGEST_SIDE for side in picture_size(data))


def picture_size(cover: bytes) -> tuple[int, int]:
    """Return the width and height of a JPEG or PNG file; (1, 1) where they cannot be found."""
    if cover.startswith(b"\x89PNG") and len(cover) >= 24:
        width, height = struct.unpack(">II", cover[16:24])
        return int(width), int(height)
    position = 2
    while position + 9 <= len(cover) and cover[position] == 0xFF:
        marker, length = (
            cover[position + 1],
            int.from_bytes(cover[position + 2 : position + 4], "big"),
        )
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", cover[position + 5 : position + 9])
            return int(width), int(height)
        position += 2 + length
    return 1, 1
