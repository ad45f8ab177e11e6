"""Names of audio formats, such as ``mp3_44100_128``: a codec, a sample rate and kbit/s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...encoding import Format
from ...errors import BadRequestError
from ...http.bodies import whole_number

DEFAULT_FORMAT = "mp3_44100_128"
_NAMES = {
    "mp3": Format.MP3,
    "pcm": Format.PCM,
    "wav": Format.WAV,
    "ulaw": Format.MULAW,
    "alaw": Format.ALAW,
    "opus": Format.OPUS,
}
_RATES = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_WITH_BITS = (Format.MP3, Format.OPUS)
_KILOBITS = (32, 48, 64, 96, 128, 192)


@dataclass(frozen=True)
class OutputFormat:
    """An audio format with its settings.

    Attributes:
        format: the codec.
        sample_rate: samples a second.
        bit_rate: bits a second; ``None`` where the codec has no choice.
    """

    format: Format
    sample_rate: int
    bit_rate: int | None

    @classmethod
    def parse(cls, name: str | None) -> OutputFormat:
        """Return the format of a name; ``None`` is the default one.

        Raises:
            BadRequestError: there is none of this name.
        """
        codec, *numbers = (name or DEFAULT_FORMAT).lower().split("_")
        format = _NAMES.get(codec)
        rate, kilobits = [*map(whole_number, numbers), None, None][:2]
        if format is None or len(numbers) > (2 if format in _WITH_BITS else 1):
            raise _unknown(name)
        if rate not in _RATES or (len(numbers) == 2 and kilobits not in _KILOBITS):
            raise _unknown(name)
        if format.carried_rate(rate) != rate:
            raise _unknown(name)
        return cls(format, rate, None if kilobits is None else kilobits * 1000)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of ``RunConfig`` that say how the sound is encoded."""
        return {
            "response_format": self.format.value,
            "sample_rate": self.sample_rate,
            "bit_rate": self.bit_rate,
        }


def _unknown(name: str | None) -> BadRequestError:
    return BadRequestError(
        f"unknown output_format {str(name)[:40]!r}: give a codec ({', '.join(_NAMES)}), a sample "
        "rate and, for mp3 and opus, kbit/s, such as mp3_44100_128, pcm_24000 or ulaw_8000",
        param="output_format",
    )
