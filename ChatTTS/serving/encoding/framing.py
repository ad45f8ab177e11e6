"""Headers and framing that turn a codec's packets into a stream that players can read."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import av

from ...audio.marking import flac_block
from ...config.mark import Mark
from .pcm import ByteBuffer

# Offset of the size of the whole in a WAV header; the last size in it is that of the data.
_RIFF_SIZE = 4
_UNKNOWN_SIZE = 0xFFFFFFFF
_FACT_SIZE = 46  # offset of the number of samples in the header of G.711
# STREAMINFO holds the number of samples in the lowest 36 of the 64 bits at this offset.
_FLAC_LENGTH, _FLAC_LENGTH_BITS = 18, 36


class PacketFraming:
    """Packets directly after one another, with an optional header before them."""

    def __init__(self, header: bytes = b"") -> None:
        self._header = header

    def header(self) -> bytes:
        """Return the bytes before the first packet."""
        return self._header

    def body(self, packets: Sequence[bytes]) -> bytes:
        """Return the joined packets."""
        return b"".join(packets)

    def end(self, packets: Sequence[bytes], samples: int) -> bytes:
        """Return the joined last packets."""
        return self.body(packets)


class ADTS(PacketFraming):
    """Mono AAC-LC packets in ADTS by FFmpeg: each at once, after a header with its length."""

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        self._written = ByteBuffer()
        self._file = av.open(self._written, "w", format="adts", options={"flush_packets": "1"})
        # FFmpeg takes the fields of the headers from the encoder of the stream, which is not used.
        self._stream = self._file.add_stream("aac", rate=sample_rate, layout="mono")

    def body(self, packets: Sequence[bytes]) -> bytes:
        """Return the packets, each after its header."""
        for data in packets:
            packet = av.Packet(data)
            packet.stream = self._stream
            self._file.mux(packet)
        return self._written.take()


def flac_header(stream_info: bytes, mark: Mark | None = None) -> bytes:
    """Return the header of FLAC frames: the marker, ``STREAMINFO``, and the mark if there is one.

    The length and checksum are zero, which means unknown.
    """
    last = 0x80 if mark is None else 0
    head = struct.pack(">4sI", b"fLaC", last << 24 | len(stream_info)) + stream_info
    return head if mark is None else head + flac_block(mark)


def with_flac_length(stream: bytes, samples: int) -> bytes:
    """Return a whole FLAC stream with its number of samples in the header."""
    (fields,) = struct.unpack_from(">Q", stream, _FLAC_LENGTH)
    file = bytearray(stream)
    struct.pack_into(
        ">Q", file, _FLAC_LENGTH, fields >> _FLAC_LENGTH_BITS << _FLAC_LENGTH_BITS | samples
    )
    return bytes(file)


def g711_wav_header(tag: int, sample_rate: int) -> bytes:
    """Return the header of a WAV stream of G.711 with unknown length.

    Args:
        tag: the number of the encoding in WAV: 7 for mu-law, 6 for A-law.
        sample_rate: samples a second, which are bytes a second.
    """
    kind = struct.pack("<IHHIIHHH", 18, tag, 1, sample_rate, sample_rate, 1, 8, 0)
    riff = struct.pack("<4sI4s4s", b"RIFF", _UNKNOWN_SIZE, b"WAVE", b"fmt ")
    fact = struct.pack("<4sII", b"fact", 4, _UNKNOWN_SIZE)
    return riff + kind + fact + struct.pack("<4sI", b"data", _UNKNOWN_SIZE)


def with_wav_length(stream: bytes, samples: int, sample_bytes: int) -> bytes:
    """Return a whole WAV stream with its sizes in the header."""
    size = samples * sample_bytes
    header_bytes = stream.index(b"data") + 8
    file = bytearray(stream[: header_bytes + size])
    file += bytes(size % 2)  # chunks have an even number of bytes
    struct.pack_into("<I", file, _RIFF_SIZE, len(file) - _RIFF_SIZE - 4)
    struct.pack_into("<I", file, header_bytes - 4, size)
    if sample_bytes == 1:
        struct.pack_into("<I", file, _FACT_SIZE, samples)
    return bytes(file)
