"""What stands around a codec's packets, so that players know them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol

# Where a WAV header tells its sizes, and how long it is.
_RIFF_SIZE, _DATA_SIZE, _WAV_HEADER_BYTES = 4, 40, 44
# Where STREAMINFO tells the number of samples: the lowest 36 of 64 bits.
_FLAC_LENGTH, _FLAC_LENGTH_BITS = 18, 36
_ADTS_HEADER_BYTES = 7
_ADTS_RATES = (
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
)  # fmt: skip


class Framing(Protocol):
    """The bytes of one stream: its head, packets as they come, and the last of them."""

    def head(self) -> bytes:
        """What stands in front."""

    def body(self, packets: Sequence[bytes]) -> bytes:
        """These packets, with what belongs to each."""

    def end(self, packets: Sequence[bytes], samples: int) -> bytes:
        """The last packets; ``samples`` were encoded in all."""


class Bare:
    """Packets one after another, behind a head if there is one."""

    def __init__(self, head: bytes = b"") -> None:
        self._head = head

    def head(self) -> bytes:
        """What stands in front."""
        return self._head

    def body(self, packets: Sequence[bytes]) -> bytes:
        """These packets."""
        return b"".join(packets)

    def end(self, packets: Sequence[bytes], samples: int) -> bytes:
        """The last packets."""
        return self.body(packets)


class ADTS(Bare):
    """AAC-LC packets, mono, each behind a header that tells its length."""

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        self._rate_index = _ADTS_RATES.index(sample_rate)

    def body(self, packets: Sequence[bytes]) -> bytes:
        """These packets behind their headers."""
        return b"".join(self._header(len(packet)) + packet for packet in packets)

    def _header(self, packet_bytes: int) -> bytes:
        fields = (
            (0xFFF, 12),  # begins a frame
            (0b0001, 4),  # MPEG-4, without a checksum
            (1, 2),  # profile: low complexity
            (self._rate_index, 4),
            (0, 1),
            (1, 3),  # one channel
            (0, 4),
            (_ADTS_HEADER_BYTES + packet_bytes, 13),
            (0x7FF, 11),  # the rate varies
            (0, 2),  # one packet
        )
        bits = 0
        for value, width in fields:
            bits = bits << width | value
        return bits.to_bytes(_ADTS_HEADER_BYTES, "big")


def flac_head(stream_info: bytes) -> bytes:
    """What stands in front of FLAC frames: the mark, and ``STREAMINFO`` as the only block.

    The length and the checksum in it are zero, which means that they are not known.
    """
    return struct.pack(">4sI", b"fLaC", 0x80 << 24 | len(stream_info)) + stream_info


def with_flac_length(stream: bytes, samples: int) -> bytes:
    """A whole FLAC stream whose head tells how many samples it has."""
    (fields,) = struct.unpack_from(">Q", stream, _FLAC_LENGTH)
    file = bytearray(stream)
    struct.pack_into(
        ">Q", file, _FLAC_LENGTH, fields >> _FLAC_LENGTH_BITS << _FLAC_LENGTH_BITS | samples
    )
    return bytes(file)


def with_wav_length(stream: bytes) -> bytes:
    """A whole WAV stream whose head tells its sizes."""
    file = bytearray(stream)
    struct.pack_into("<I", file, _RIFF_SIZE, len(file) - _RIFF_SIZE - 4)
    struct.pack_into("<I", file, _DATA_SIZE, len(file) - _WAV_HEADER_BYTES)
    return bytes(file)
