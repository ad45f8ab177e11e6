"""Pages of Ogg streams (RFC 3533), and the comments of Vorbis and Opus in them."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

CONTINUED, FIRST_PAGE, LAST_PAGE = 1, 2, 4
_POLYNOMIAL = 0x04C11DB7
_HEAD = struct.Struct("<4sBBqIIIB")
_CHECKSUM_AT = 22
_MOST_SEGMENTS = 255
_UNENDED = -1  # granules of a page on which no packet ends

_OPUS, _VORBIS = b"OpusHead", b"\x01vorbis"
# The packets before the sound, and what is around the comments in the second one.
_HEADERS = {_OPUS: (2, b"OpusTags", b""), _VORBIS: (3, b"\x03vorbis", b"\x01")}


@dataclass(frozen=True)
class Page:
    """A page of a stream.

    Attributes:
        kind: sum of ``CONTINUED``, ``FIRST_PAGE`` and ``LAST_PAGE``.
        granules: place of the last sample that ends on it.
        serial: of the stream.
        number: of the page, from 0.
        sizes: of its segments; a packet ends with its first one of less than 255 bytes.
        body: the segments.
    """

    kind: int
    granules: int
    serial: int
    number: int
    sizes: bytes
    body: bytes

    def to_bytes(self) -> bytes:
        """Return the page with its checksum."""
        head = _HEAD.pack(
            b"OggS", 0, self.kind, self.granules, self.serial, self.number, 0, len(self.sizes)
        )
        page = bytearray(head + self.sizes + self.body)
        struct.pack_into("<I", page, _CHECKSUM_AT, _checksum(page))
        return bytes(page)


def lacing(packet: bytes) -> bytes:
    """Return the sizes of a packet's segments; the last one may be empty."""
    return b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255])


def read_page(file: BinaryIO) -> Page | None:
    """Read the next page; ``None`` where there is no whole one. Its checksum is not looked at."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(b"OggS"):
        return None
    _, _, kind, granules, serial, number, _, count = _HEAD.unpack(head)
    sizes = file.read(count)
    body = file.read(sum(sizes))
    if len(sizes) < count or len(body) < sum(sizes):
        return None
    return Page(kind, granules, serial, number, sizes, body)


def header_packets(file: BinaryIO, most: int) -> list[bytes]:
    """Return the packets before the sound of a stream of Vorbis or Opus, as far as they are whole.

    Pages of other streams between them are left out. None are returned of another codec.

    Args:
        most: pages that are read.
    """
    packets, open_packet, count, serial = list[bytes](), bytearray(), 1, None
    for _ in range(most):
        page = read_page(file)
        if page is None:
            break
        if serial is None:
            serial = page.serial
        elif page.serial != serial:
            continue
        at = 0
        for size in page.sizes:
            open_packet += page.body[at : at + size]
            at += size
            if size < 255:
                packets.append(bytes(open_packet))
                open_packet.clear()
        known = next((each for each in _HEADERS if packets and packets[0].startswith(each)), None)
        if known is not None:
            count = _HEADERS[known][0]
        if len(packets) >= count:
            break
    return packets[:count] if count > 1 else []


def comments_in(packets: Sequence[bytes]) -> bytes:
    """Return the block of comments in the packets before the sound; may be empty."""
    if len(packets) < 2:
        return b""
    _, before, _ = _HEADERS[_OPUS if packets[0].startswith(_OPUS) else _VORBIS]
    return packets[1].removeprefix(before) if packets[1].startswith(before) else b""


def with_comments(data: bytes, comments: bytes) -> bytes:
    """Return a file of Vorbis or Opus with another block of comments.

    Args:
        data: a whole file with one stream, as libsndfile and :mod:`..serving.encoding` write it.
        comments: vendor and comments, as in FLAC.
    """
    file = io.BytesIO(data)
    first = read_page(file)
    assert first is not None
    file.seek(0)
    _, *packets = header_packets(file, len(data))
    sound_at = file.tell()
    _, before, after = _HEADERS[_OPUS if first.body.startswith(_OPUS) else _VORBIS]
    packets[0] = before + comments + after
    pages = _paged(packets, first.serial)
    head = first.to_bytes() + b"".join(page.to_bytes() for page in pages)
    rest = read_page(file)
    if rest is None or rest.number == len(pages) + 1:
        return head + data[sound_at:]
    parts, shift = [head], len(pages) + 1 - rest.number
    while rest is not None:
        moved = Page(
            rest.kind, rest.granules, rest.serial, rest.number + shift, rest.sizes, rest.body
        )
        parts.append(moved.to_bytes())
        rest = read_page(file)
    return b"".join(parts)


def _paged(packets: Sequence[bytes], serial: int) -> list[Page]:
    """Return the header pages from number 1 on, as full as they can be."""
    sizes, body = b"".join(map(lacing, packets)), b"".join(packets)
    pages, at, kind = list[Page](), 0, 0
    for start in range(0, len(sizes), _MOST_SEGMENTS):
        part = sizes[start : start + _MOST_SEGMENTS]
        granules = 0 if min(part) < 255 else _UNENDED
        pages.append(Page(kind, granules, serial, len(pages) + 1, part, body[at : at + sum(part)]))
        at += sum(part)
        kind = CONTINUED if part[-1] == 255 else 0
    return pages


def _checksum_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = (value << 1) ^ (_POLYNOMIAL if value & 0x80000000 else 0)
        table.append(value & 0xFFFFFFFF)
    return tuple(table)


_TABLE = _checksum_table()


def _checksum(data: bytes | bytearray) -> int:
    """Return Ogg's CRC-32; unlike zlib's, it neither reflects bits nor inverts the value."""
    value = 0
    for byte in data:
        value = (value << 8 & 0xFFFFFFFF) ^ _TABLE[value >> 24 ^ byte]
    return value
