"""Formats without a codec: PCM and WAV."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

from ...audio.samples import Samples
from ...audio.wavstream import PCMWriter, WavWriter
from .formats import Format


class PlainWriter:
    """Samples to bytes by the package's own writers.

    Args:
        format: ``PCM`` or ``WAV``.
        sample_rate: samples a second.
    """

    def __init__(self, format: Format, sample_rate: int) -> None:
        self._outbox = _Outbox()
        stream = cast(BinaryIO, self._outbox)
        is_wav = format is Format.WAV
        self._writer = WavWriter(stream, sample_rate) if is_wav else PCMWriter(stream)

    def push(self, samples: Samples) -> bytes:
        """The bytes of float32 (n,), which is clipped at full scale."""
        self._writer.write(samples)
        return self._outbox.take()

    def finish(self) -> bytes:
        """The last bytes."""
        self._writer.close()
        return self._outbox.take()


class _Outbox(io.RawIOBase):
    """A stream that cannot seek; what was written is taken from it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """All that was written since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
