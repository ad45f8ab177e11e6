"""The bytes of a call's speech, text after text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from ...audio.samples import SAMPLE_RATE, Samples
from ..encoding import Encoder, Format, encoder
from .request_parsing import AudioSettings

# Joined, the streams of several texts are one stream. A file is whole only once.
_JOINABLE = (Format.PCM, Format.MULAW, Format.ALAW)


class Threads(Protocol):
    """Where work is done that would hold up the loop."""

    def __call__(self, work: Callable[[], bytes]) -> Awaitable[bytes]: ...


class StreamEncoder:
    """Encodes texts that follow one another.

    Bytes of plain samples are complete at each text's end, so that nobody waits for the last
    moments of a sentence until the next one comes. FLAC and Opus are one file for all texts.

    Args:
        settings: how.
        in_thread: see there.
    """

    def __init__(self, settings: AudioSettings, in_thread: Threads) -> None:
        self.settings = settings
        self._in_thread = in_thread
        self._encoder: Encoder | None = None
        self._last: Encoder | None = None
        self._is_light = settings == AudioSettings(Format.PCM, SAMPLE_RATE, 1.0)

    async def push(self, samples: Samples) -> bytes:
        """The bytes that are ready after these samples, maybe none."""
        current = self._encoder = self._encoder or self._new()
        if self._is_light:
            return current.push(samples)
        return await self._in_thread(lambda: current.push(samples))

    async def pause(self) -> bytes:
        """The bytes that are ready at the end of a text."""
        return await self.finish() if self.settings.format in _JOINABLE else b""

    async def finish(self) -> bytes:
        """The rest."""
        current, self._encoder = self._encoder, None
        if current is None:
            return b""
        self._last = current
        return await self._in_thread(current.finish)

    def as_file(self, stream: bytes) -> bytes:
        """What :meth:`push` and :meth:`finish` gave, as a file that tells its length."""
        return stream if self._last is None else self._last.as_file(stream)

    def _new(self) -> Encoder:
        return encoder(self.settings.format, self.settings.sample_rate, self.settings.speed)
