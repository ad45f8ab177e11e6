"""Encode the speech of one call, which may have several texts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ....audio.samples import SAMPLE_RATE, Samples
from ...encoding import Encoder, Format
from .request_parsing import AudioSettings

InThread = Callable[[Callable[[], bytes]], Awaitable[bytes]]
# Formats in which the joined streams of several texts are a valid stream.
_JOINABLE = (Format.PCM, Format.MULAW, Format.ALAW)


class StreamEncoder:
    """Encodes consecutive texts as one stream.

    PCM and G.711 are complete at the end of each text, so the end of a text is not delayed until
    the next text comes. FLAC and Opus are one file for all texts.

    Args:
        settings: format, rate and speed.
        in_thread: runs the encoder in a worker thread.
    """

    def __init__(self, settings: AudioSettings, in_thread: InThread) -> None:
        self.settings = settings
        self._in_thread = in_thread
        self._encoder: Encoder | None = None
        self._last: Encoder | None = None
        self._needs_thread = settings != AudioSettings(Format.PCM, SAMPLE_RATE, 1.0)

    async def push(self, samples: Samples) -> bytes:
        """Encode samples and return the bytes that are ready, possibly none."""
        current = self._encoder = self._encoder or self._new_encoder()
        if not self._needs_thread:
            return current.push(samples)
        return await self._in_thread(lambda: current.push(samples))

    async def end_text(self) -> bytes:
        """Return the bytes that are ready at the end of a text."""
        return await self.finish() if self.settings.format in _JOINABLE else b""

    async def finish(self) -> bytes:
        """Return the remaining bytes."""
        current, self._encoder = self._encoder, None
        if current is None:
            return b""
        self._last = current
        return await self._in_thread(current.finish)

    def as_file(self, stream: bytes) -> bytes:
        """Return the joined bytes of the stream as a file with its length in the header."""
        return stream if self._last is None else self._last.as_file(stream)

    def _new_encoder(self) -> Encoder:
        return Encoder(self.settings.format, self.settings.sample_rate, self.settings.speed)
