"""Opus packets in an Ogg stream (RFC 3533, RFC 7845)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ...version import __version__

_SERIAL = 1  # one stream only, and the same bytes for the same sound
_GRANULES = 48_000  # a second, whatever rate Opus codes
_PACKET_GRANULES = _GRANULES // 50  # packets of 20 ms
_FIRST, _LAST = 2, 4
_POLYNOMIAL = 0x04C11DB7


class OggOpus:
    """The pages of one stream.

    Every packet has a page of its own, so that none waits for another: that costs 28 bytes for
    20 ms, and a player never runs dry because of pages.

    Args:
        head: the packet ``OpusHead``.
        sample_rate: of the samples that are counted.
    """

    def __init__(self, head: bytes, sample_rate: int) -> None:
        self._head = head
        self._rate = sample_rate
        self._skipped = int.from_bytes(head[10:12], "little")  # granules that the player drops
        self._pages = 0
        self._packets = 0

    def head(self) -> bytes:
        """The two pages in front of the sound."""
        vendor = f"ChatTTS {__version__}".encode()
        tags = struct.pack("<8sI", b"OpusTags", len(vendor)) + vendor + struct.pack("<I", 0)
        return self._page(self._head, 0, _FIRST) + self._page(tags, 0)

    def body(self, packets: Sequence[bytes]) -> bytes:
        """Pages of these packets."""
        return b"".join(self._sound(packet) for packet in packets)

    def end(self, packets: Sequence[bytes], samples: int) -> bytes:
        """Pages of the last packets; the very last says how many samples there are in all."""
        total = self._skipped + round(samples * _GRANULES / self._rate)
        *others, last = packets
        return self.body(others) + self._page(last, total, _LAST)

    def _sound(self, packet: bytes) -> bytes:
        self._packets += 1
        return self._page(packet, self._packets * _PACKET_GRANULES)

    def _page(self, packet: bytes, granules: int, kind: int = 0) -> bytes:
        """A page that holds one packet of at most 65024 bytes."""
        # A packet ends with the first segment of less than 255 bytes, be it an empty one.
        sizes = b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255])
        fields = (b"OggS", 0, kind, granules, _SERIAL, self._pages, 0, len(sizes))
        self._pages += 1
        page = bytearray(struct.pack("<4sBBqIIIB", *fields) + sizes + packet)
        struct.pack_into("<I", page, 22, _checksum(page))
        return bytes(page)


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
    """Ogg's CRC-32, which neither reflects nor inverts as zlib's does."""
    value = 0
    for byte in data:
        value = (value << 8 & 0xFFFFFFFF) ^ _TABLE[value >> 24 ^ byte]
    return value
