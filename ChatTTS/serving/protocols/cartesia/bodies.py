"""The fields of Cartesia's requests that this server gives a meaning; others are ignored."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field

from ....config.request_fields import SEED_LIMIT
from ....errors import AudioError
from ....languages import find_language
from ...encoding import Format
from ...errors import BadRequestError
from ...http.bodies import Fields
from ...live.messages import MAX_ID_CHARACTERS
from ...speech.config import RunConfig

_TEMPOS = {"slow": 0.8, "normal": 1.0, "fast": 1.2}
_RAW = {
    "pcm_s16le": Format.PCM,
    "pcm_f32le": Format.PCM,
    "pcm_mulaw": Format.MULAW,
    "pcm_alaw": Format.ALAW,
}
_FLOATS = "pcm_f32le"
_FULL_SCALE = np.float32(32_768)
_DEFAULT_DELAY = 3000  # milliseconds
_MAX_DELAY = 5000


def _in_lower_case(name: Any) -> Any:
    return name.lower() if isinstance(name, str) else name


_AnyCase = BeforeValidator(_in_lower_case)


class _Fields(Fields):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Voice(_Fields):
    """A voice by its name; Cartesia's embeddings are of another model."""

    id: str


class OutputFormat(_Fields):
    """An audio format."""

    container: Annotated[Literal["raw", "wav", "mp3"], _AnyCase]
    encoding: Annotated[str, _AnyCase] = "pcm_s16le"
    sample_rate: int = 24_000
    bit_rate: int | None = None

    @property
    def is_float(self) -> bool:
        """Return whether samples are sent as 32-bit floats."""
        return self.container == "raw" and self.encoding == _FLOATS

    @property
    def format(self) -> Format:
        """The format of the encoder.

        Raises:
            BadRequestError: there is none for this container and encoding.
        """
        if self.container == "mp3":
            return Format.MP3
        if self.container == "wav":
            if self.encoding != "pcm_s16le":
                raise _wrong_format("encoding must be pcm_s16le in the container wav")
            return Format.WAV
        if self.encoding not in _RAW:
            raise _wrong_format(f"encoding must be one of {', '.join(_RAW)}")
        return _RAW[self.encoding]


class GenerationConfig(_Fields):
    """Settings of the generation; emotion and volume have no counterpart here."""

    speed: float | None = None


class SpeechBody(_Fields):
    """The body of a request for speech, or a message with text."""

    transcript: str
    voice: str | Voice
    output_format: OutputFormat
    language: str | None = None
    locale: str | None = None
    generation_config: GenerationConfig | None = None
    speed: float | Literal["slow", "normal", "fast"] | None = None
    add_timestamps: bool | None = None
    context_id: str | None = Field(default=None, max_length=MAX_ID_CHARACTERS)
    seed: int | None = Field(default=None, ge=0, lt=SEED_LIMIT)
    flush: bool | None = None
    continues: bool | None = Field(default=None, alias="continue")
    max_buffer_delay_ms: int | None = Field(default=None, ge=0, le=_MAX_DELAY)

    @property
    def speaks_at_once(self) -> bool:
        """Return whether each text is complete, since the client collects sentences itself."""
        return self.max_buffer_delay_ms == 0

    def config(self, languages: Collection[str], **others: Any) -> RunConfig:
        """Return the checked settings.

        Args:
            languages: codes that are known; any other one is detected from the text.
            others: further fields of ``RunConfig``.

        Raises:
            BadRequestError: a value cannot be used.
        """
        output = self.output_format
        format = output.format
        try:
            rate = format.checked_rate(output.sample_rate)
        except AudioError as error:
            raise _wrong_format(str(error)) from error
        config = RunConfig(
            voice=self.voice if isinstance(self.voice, str) else self.voice.id,
            response_format=format.value,
            sample_rate=rate,
            bit_rate=output.bit_rate,
            speed=self._tempo,
            language=find_language(self.language or self.locale, languages),
            word_times=bool(self.add_timestamps),
            seed=self.seed,
            **others,
        )
        config.check()
        return config

    @property
    def flush_after(self) -> float | None:
        """Milliseconds without new text after which the text so far is spoken."""
        delay = self.max_buffer_delay_ms
        return float(_DEFAULT_DELAY if delay is None else delay) or None

    @property
    def _tempo(self) -> float:
        given = None if self.generation_config is None else self.generation_config.speed
        if given is None:
            given = self.speed if isinstance(self.speed, float) else _TEMPOS.get(self.speed or "")
        return 1.0 if given is None else given


def as_floats(pcm: bytes) -> bytes:
    """Return 16-bit PCM as 32-bit floats, little-endian, in [-1, 1)."""
    floats: bytes = (np.frombuffer(pcm, "<i2") / _FULL_SCALE).astype("<f4").tobytes()
    return floats


def _wrong_format(reason: str) -> BadRequestError:
    return BadRequestError(f"output_format: {reason}", param="output_format")
