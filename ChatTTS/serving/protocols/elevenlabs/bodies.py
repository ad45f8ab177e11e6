"""The fields of ElevenLabs' requests that this server gives a meaning; others are ignored."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import ConfigDict, Field

from ....languages import find_language
from ...errors import BadRequestError
from ...http.bodies import Fields, validated, whole_number
from ...speech.config import RunConfig
from .formats import OutputFormat

_MAX_SEED = 2**32 - 1


class VoiceSettings(Fields):
    """Settings of a voice; stability, similarity and style have no counterpart here."""

    model_config = ConfigDict(extra="ignore", strict=False)

    speed: float | None = None


class SpeechBody(Fields):
    """The body of a request for speech."""

    model_config = ConfigDict(extra="ignore", strict=False)

    text: str
    model_id: str | None = None
    language_code: str | None = None
    voice_settings: VoiceSettings | None = None
    seed: int | None = Field(default=None, ge=0, le=_MAX_SEED)

    def config(
        self, voice: str, output: OutputFormat, languages: Collection[str], *, word_times: bool
    ) -> RunConfig:
        """Return the settings of the text, spoken by the voice in the address.

        Args:
            languages: the codes that are known.
        """
        return RunConfig(
            voice=voice,
            speed=speed_of(self.voice_settings),
            seed=self.seed,
            language=find_language(self.language_code, languages),
            word_times=word_times,
            **output.fields,
        )


def speed_of(settings: VoiceSettings | None) -> float:
    """Return the tempo of these settings."""
    given = None if settings is None else settings.speed
    return 1.0 if given is None else given


def parse_settings(fields: Any) -> VoiceSettings | None:
    """Return the voice settings of a message; ``None`` where it has none.

    Raises:
        BadRequestError: a field is wrong.
    """
    if fields is None:
        return None
    return validated(fields, VoiceSettings)


def parse_seed(text: str | None) -> int | None:
    """Return the seed of an address's query.

    Raises:
        BadRequestError: it is no whole number from 0 to 2**32 - 1.
    """
    if text is None:
        return None
    seed = whole_number(text, len(str(_MAX_SEED)))
    if seed is None or seed > _MAX_SEED:
        raise BadRequestError(f"seed must be a whole number, 0 to {_MAX_SEED}", param="seed")
    return seed
