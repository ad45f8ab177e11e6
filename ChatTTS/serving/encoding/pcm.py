"""Encode the formats that need no codec: PCM and WAV."""

from __future__ import annotations

import io

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
        self._buffer = ByteBuffer()
        is_wav = format is Format.WAV
        self._writer = WavWriter(self._buffer, sample_rate) if is_wav else PCMWriter(self._buffer)

    def push(self, samples: Samples) -> bytes:
        """Return the bytes of finite float32 (n,), clipped to [-1, 1]."""
        self._writer.append(samples)
        return self._buffer.take()

    def finish(self) -> bytes:
        """Return the last bytes."""
        self._writer.close()
        return self._buffer.take()


class ByteBuffer(io.BytesIO):
    """A stream from which the written bytes are taken; so its writer must not seek."""

    def seekable(self) -> bool:
        return False

    def take(self) -> bytes:
        """Return and remove the bytes that were written since the last call."""
        data = self.getvalue()
        self.seek(0)
        self.truncate()
        return data
