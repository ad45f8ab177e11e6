"""The settings of speech in the query of an address."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ....config.mark import Mark
from ....config.request_fields import SEED_LIMIT
from ....errors import AudioError
from ...encoding import Encoder, Format
from ...errors import BadRequestError
from ...http.bodies import whole_number
from ...speech.config import RunConfig

# For each encoding its format, the rate of requests that name none, and the containers that it
# has here; the first one is the default.
_ENCODINGS = {
    "linear16": (Format.WAV, 24_000, ("wav", "none")),
    "mulaw": (Format.MULAW, 8_000, ("none", "wav")),
    "alaw": (Format.ALAW, 8_000, ("none", "wav")),
    "mp3": (Format.MP3, 22_050, ("none",)),
    "opus": (Format.OPUS, 48_000, ("ogg",)),
    "flac": (Format.FLAC, 24_000, ("none",)),
    "aac": (Format.AAC, 22_050, ("none",)),
}
_MOST_DIGITS = 19  # of a seed
_OF_SOCKETS = ("linear16", "mulaw", "alaw")


@dataclass(frozen=True, kw_only=True)
class SpeakConfig(RunConfig):
    """The settings of a text, and whether mu-law and A-law have the header of a WAV file."""

    in_wav: bool = False

    def encoder(self, mark: Mark | None = None) -> Encoder:
        """Return an encoder for the text."""
        return Encoder(
            self.format,
            self.sample_rate,
            self.speed,
            self.bit_rate,
            in_wav=self.in_wav,
            mark=mark,
        )


def parse_query(query: Mapping[str, str], *, is_socket: bool) -> SpeakConfig:
    """Return the checked settings of a query; fields without a counterpart are ignored.

    Raises:
        BadRequestError: a value cannot be used.
    """
    if "callback" in query:
        raise BadRequestError(
            "callback is not supported: the audio is in the response", param="callback"
        )
    encoding = query.get("encoding", "linear16" if is_socket else "mp3").lower()
    known = _OF_SOCKETS if is_socket else tuple(_ENCODINGS)
    if encoding not in known:
        raise BadRequestError(f"encoding must be one of {', '.join(known)}", param="encoding")
    format, rate, containers = _ENCODINGS[encoding]
    container = "none" if is_socket else query.get("container", containers[0]).lower()
    if container not in containers:
        raise BadRequestError(
            f"container must be {' or '.join(containers)} with {encoding}", param="container"
        )
    if format is Format.WAV and container == "none":
        format = Format.PCM
    try:
        rate = format.checked_rate(_whole(query, "sample_rate", rate))
    except AudioError as error:
        raise BadRequestError(str(error), param="sample_rate") from error
    seed = query.get("seed")
    config = SpeakConfig(
        in_wav=container == "wav" and encoding in ("mulaw", "alaw"),
        voice=query.get("model"),
        response_format=format.value,
        sample_rate=rate,
        bit_rate=_whole(query, "bit_rate", 0) or None,
        speed=_number(query, "speed", 1.0),
        seed=None if seed is None else _whole(query, "seed", 0),
    )
    config.check()
    return config


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    value = _number(query, name, default)
    if value != int(value) or not 0 <= value < SEED_LIMIT:
        raise BadRequestError(f"{name} must be a whole number, 0 or more", param=name)
    return int(value)


def _number(query: Mapping[str, str], name: str, default: float) -> float:
    text = query.get(name)
    if text is None:
        return default
    try:
        whole = whole_number(text, _MOST_DIGITS)
        value = float(text) if whole is None else whole
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRequestError(f"{name} must be a number", param=name)
    return value
