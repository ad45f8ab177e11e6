"""Opus packets in an Ogg stream (RFC 3533, RFC 7845)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ...audio.marking import vorbis_comments
from ...audio.ogg import FIRST_PAGE, LAST_PAGE, Page, lacing
from ...config.mark import Mark
from ...version import __version__

_SERIAL = 1  # constant, since there is one stream, and equal sound should give equal bytes
_GRANULE_RATE = 48_000  # granules a second, at every sample rate
_PACKET_GRANULES = _GRANULE_RATE // 50  # packets of 20 ms
_VENDOR = f"ChatTTS {__version__}".encode()
_NO_COMMENTS = struct.pack("<I", len(_VENDOR)) + _VENDOR + struct.pack("<I", 0)


class OggOpus:
    """Puts the packets of one stream into Ogg pages.

    Every packet has its own page, so that no packet waits for another one. That costs 28 bytes for
    20 ms of sound.

    Args:
        head: the packet ``OpusHead``.
        sample_rate: of the encoded samples, in samples a second.
        mark: in the comments; ``None`` leaves them empty.
    """

    def __init__(self, head: bytes, sample_rate: int, mark: Mark | None = None) -> None:
        self._head, self._mark = head, mark
        self._rate = sample_rate
        self._pre_skip = int.from_bytes(head[10:12], "little")  # granules that the player drops
        self._pages = 0
        self._packets = 0

    def header(self) -> bytes:
        """Return the two header pages."""
        tags = b"OpusTags" + (_NO_COMMENTS if self._mark is None else vorbis_comments(self._mark))
        return self._page(self._head, 0, FIRST_PAGE) + self._page(tags, 0)

    def body(self, packets: Sequence[bytes]) -> bytes:
        """Return the pages of these packets."""
        return b"".join(self._audio_page(packet) for packet in packets)

    def end(self, packets: Sequence[bytes], samples: int) -> bytes:
        """Return the pages of the last packets; the last page holds the total length."""
        total = self._pre_skip + round(samples * _GRANULE_RATE / self._rate)
        *others, last = packets
        return self.body(others) + self._page(last, total, LAST_PAGE)

    def _audio_page(self, packet: bytes) -> bytes:
        self._packets += 1
        return self._page(packet, self._packets * _PACKET_GRANULES)

    def _page(self, packet: bytes, granules: int, kind: int = 0) -> bytes:
        """Return a page with one packet of at most 65024 bytes."""
        page = Page(kind, granules, _SERIAL, self._pages, lacing(packet), packet)
        self._pages += 1
        return page.to_bytes()
