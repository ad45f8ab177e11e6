"""Encode the formats that need no codec: PCM and WAV."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

from ...audio.samples import Samples
from ...audio.wavstream import PCMWriter, WavWriter
from .formats import Format


class PlainWriter:
    """Encodes samples by the package's own writers.

    Args:
        format: ``PCM`` or ``WAV``.
        sample_rate: samples a second.
    """

    def __init__(self, format: Format, sample_rate: int) -> None:
        self._buffer = _ByteBuffer()
        stream = cast(BinaryIO, self._buffer)
        is_wav = format is Format.WAV
        self._writer = WavWriter(stream, sample_rate) if is_wav else PCMWriter(stream)

    def push(self, samples: Samples) -> bytes:
        """Return the bytes of float32 (n,), clipped to [-1, 1]."""
        self._writer.write(samples)
        return self._buffer.take()

    def finish(self) -> bytes:
        """Return the last bytes."""
        self._writer.close()
        return self._buffer.take()


class _ByteBuffer(io.RawIOBase):
    """A stream without seeking, from which the written bytes are taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """Return and remove the bytes that were written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
