"""The formats that speech is sent in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...audio.samples import check_rate
from ...errors import AudioError

LOWEST_RATE, HIGHEST_RATE = 8_000, 48_000

_MPEG_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)


class Format(str, Enum):
    """What a stream of mono speech can be written as.

    ``PCM`` is signed 16-bit little-endian without a header. ``MULAW`` and ``ALAW`` are G.711's
    bytes without a header. ``OPUS`` comes in Ogg pages; Riva calls the same ``OGGOPUS``.
    """

    MP3 = "mp3"
    OPUS = "opus"
    AAC = "aac"
    FLAC = "flac"
    WAV = "wav"
    PCM = "pcm"
    MULAW = "mulaw"
    ALAW = "alaw"
    OGGOPUS = OPUS

    @classmethod
    def parse(cls, name: str) -> Format:
        """The format of this name, in letters of any case.

        Raises:
            AudioError: there is none; the message lists those that are known.
        """
        try:
            return cls.__members__[name.upper()]
        except KeyError:
            known = ", ".join(format.value for format in cls)
            raise AudioError(
                f"the audio format {name!r} is not known; name one of: {known}"
            ) from None

    @property
    def media_type(self) -> str:
        """What HTTP calls it, such as ``audio/mpeg``."""
        return _KINDS[self].media_type

    @property
    def suffix(self) -> str:
        """The ending of a file's name, with the dot."""
        return _KINDS[self].suffix

    def carried_rate(self, sample_rate: int) -> int:
        """Samples a second of a stream for which ``sample_rate`` is asked.

        MP3, AAC and Opus know some rates only; they take the next one above, which loses nothing,
        and which the stream itself tells its player.

        Raises:
            AudioError: ``sample_rate`` is no whole number from 8000 to 48000.
        """
        rate = check_rate(sample_rate)
        if not LOWEST_RATE <= rate <= HIGHEST_RATE:
            raise AudioError(
                f"sample_rate must be from {LOWEST_RATE} to {HIGHEST_RATE} samples a second, "
                f"not {rate}"
            )
        rates = _KINDS[self].rates
        return rate if rates is None else min(known for known in rates if known >= rate)


@dataclass(frozen=True)
class _Kind:
    """What is to be known of a format; ``rates`` is ``None`` where every rate will do."""

    media_type: str
    suffix: str
    rates: tuple[int, ...] | None = None


_KINDS = {
    Format.MP3: _Kind("audio/mpeg", ".mp3", _MPEG_RATES),
    Format.OPUS: _Kind("audio/ogg", ".opus", _OPUS_RATES),
    Format.AAC: _Kind("audio/aac", ".aac", _MPEG_RATES),
    Format.FLAC: _Kind("audio/flac", ".flac"),
    Format.WAV: _Kind("audio/wav", ".wav"),
    Format.PCM: _Kind("audio/pcm", ".pcm"),
    # audio/basic would promise 8000 samples a second.
    Format.MULAW: _Kind("audio/PCMU", ".ul"),
    Format.ALAW: _Kind("audio/PCMA", ".al"),
}
