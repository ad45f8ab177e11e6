"""Opus packets in an Ogg stream (RFC 3533, RFC 7845)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ...version import __version__

_SERIAL = 1  # constant, since there is one stream, and equal sound should give equal bytes
_GRANULE_RATE = 48_000  # granules a second, at every sample rate
_PACKET_GRANULES = _GRANULE_RATE // 50  # packets of 20 ms
_FIRST_PAGE, _LAST_PAGE = 2, 4
_POLYNOMIAL = 0x04C11DB7


class OggOpus:
    """Puts the packets of one stream into Ogg pages.

    Every packet has its own page, so that no packet waits for another one. That costs 28 bytes for
    20 ms of sound.

    Args:
        head: the packet ``OpusHead``.
        sample_rate: of the encoded samples, in samples a second.
    """

    def __init__(self, head: bytes, sample_rate: int) -> None:
        self._head = head
        self._rate = sample_rate
        self._pre_skip = int.from_bytes(head[10:12], "little")  # granules that the player drops
        self._pages = 0
        self._packets = 0

    def header(self) -> bytes:
        """Return the two header pages."""
        vendor = f"ChatTTS {__version__}".encode()
        tags = struct.pack("<8sI", b"OpusTags", len(vendor)) + vendor + struct.pack("<I", 0)
        return self._page(self._head, 0, _FIRST_PAGE) + self._page(tags, 0)

    def body(self, packets: Sequence[bytes]) -> bytes:
        """Return the pages of these packets."""
        return b"".join(self._audio_page(packet) for packet in packets)

    def end(self, packets: Sequence[bytes], samples: int) -> bytes:
        """Return the pages of the last packets; the last page holds the total length."""
        total = self._pre_skip + round(samples * _GRANULE_RATE / self._rate)
        *others, last = packets
        return self.body(others) + self._page(last, total, _LAST_PAGE)

    def _audio_page(self, packet: bytes) -> bytes:
        self._packets += 1
        return self._page(packet, self._packets * _PACKET_GRANULES)

    def _page(self, packet: bytes, granules: int, kind: int = 0) -> bytes:
        """Return a page with one packet of at most 65024 bytes."""
        # A packet ends with its first segment of less than 255 bytes, which may be empty.
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
    """Return Ogg's CRC-32; unlike zlib's, it neither reflects bits nor inverts the value."""
    value = 0
    for byte in data:
        value = (value << 8 & 0xFFFFFFFF) ^ _TABLE[value >> 24 ^ byte]
    return value
