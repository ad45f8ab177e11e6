"""The audio formats of the server's answers. ``audio/files.py`` writes files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from ...audio.samples import check_rate
from ...errors import AudioError

LOWEST_RATE, HIGHEST_RATE = 8_000, 48_000

_MPEG_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)


T = TypeVar("T")

# Other names that programs use; those of media types are without what they begin with.
_OTHER_NAMES = {
    **dict.fromkeys(("ogg", "oga", "ogg_opus", "ogg-opus", "oggopus"), "opus"),
    **dict.fromkeys(("mpeg", "mpeg3", "mpga"), "mp3"),
    **dict.fromkeys(("wave", "x-wav", "vnd.wave"), "wav"),
    **dict.fromkeys(("raw", "s16le", "pcm_s16le", "pcm16", "l16", "linear16"), "pcm"),
    **dict.fromkeys(("adts", "aacp"), "aac"),
    **dict.fromkeys(("x-flac",), "flac"),
    **dict.fromkeys(("ulaw", "pcmu", "pcm_mulaw"), "mulaw"),
    **dict.fromkeys(("pcma", "pcm_alaw"), "alaw"),
}


def usual_name(name: T) -> T | str:
    """Return the name here of a format, from its name elsewhere, in letters of any case.

    Media types are such names, too. What is no text, or another text, is only put in lower case.
    """
    if not isinstance(name, str):
        return name
    plain = name.partition(";")[0].strip().lower().removeprefix("audio/")
    return _OTHER_NAMES.get(plain, plain)


class Format(str, Enum):
    """An audio format of a stream of mono speech.

    ``PCM`` is signed 16-bit little-endian without a header. ``MULAW`` and ``ALAW`` are bytes of
    G.711 without a header. ``OPUS`` is Opus in an Ogg stream; ``OGGOPUS``, its name in Riva, is an
    alias.
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
        """Return the format of this name, in letters of any case.

        Raises:
            AudioError: there is none; the message lists the names.
        """
        try:
            return cls.__members__[name.upper()]
        except KeyError:
            known = ", ".join(format.value for format in cls)
            raise AudioError(f"unknown audio format {name!r}; use one of: {known}") from None

    @property
    def media_type(self) -> str:
        """The media type in HTTP, such as ``audio/mpeg``."""
        return _TRAITS[self].media_type

    def carried_rate(self, sample_rate: int) -> int:
        """Return the rate of a stream for which ``sample_rate`` (samples a second) is requested.

        MP3, AAC and Opus support certain rates only. For any other rate the stream has the next
        higher one, which loses nothing. The stream's own header tells the player its rate.

        Raises:
            AudioError: ``sample_rate`` is not a whole number from 8000 to 48000.
        """
        rate = check_rate(sample_rate)
        if not LOWEST_RATE <= rate <= HIGHEST_RATE:
            raise AudioError(
                f"sample_rate must be from {LOWEST_RATE} to {HIGHEST_RATE} samples a second, "
                f"not {rate}"
            )
        rates = _TRAITS[self].rates
        return rate if rates is None else min(known for known in rates if known >= rate)

    def checked_rate(self, sample_rate: int) -> int:
        """Return a rate for which a stream needs no other one.

        Raises:
            AudioError: the format does not support ``sample_rate``.
        """
        if self.carried_rate(sample_rate) != sample_rate:
            raise AudioError(f"{self.value} has no sample_rate {sample_rate}")
        return sample_rate


@dataclass(frozen=True)
class _FormatTraits:
    """The properties of a format; ``rates`` is ``None`` if it supports every rate."""

    media_type: str
    rates: tuple[int, ...] | None = None


_TRAITS = {
    Format.MP3: _FormatTraits("audio/mpeg", _MPEG_RATES),
    Format.OPUS: _FormatTraits("audio/ogg", _OPUS_RATES),
    Format.AAC: _FormatTraits("audio/aac", _MPEG_RATES),
    Format.FLAC: _FormatTraits("audio/flac"),
    Format.WAV: _FormatTraits("audio/wav"),
    Format.PCM: _FormatTraits("audio/pcm"),
    # audio/basic would imply 8000 samples a second.
    Format.MULAW: _FormatTraits("audio/PCMU"),
    Format.ALAW: _FormatTraits("audio/PCMA"),
}
