"""Recordings that clients send, from bytes to samples."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import soundfile

from ..audio.reference import MAX_SECONDS
from ..audio.samples import Samples
from .errors import BadRequestError, RequestTooLargeError
from .service import SpeechService

# A small file can promise a great many samples; what people record stays below these.
_MOST_CHANNELS = 2
_HIGHEST_RATE = 192_000


@dataclass(frozen=True)
class RawAudioFormat:
    """Mono samples without a header.

    Attributes:
        subtype: libsndfile's name of their encoding, such as ``PCM_16``.
        sample_rate: samples a second.
    """

    subtype: str
    sample_rate: int


async def sample_prompt(
    service: SpeechService, data: bytes, param: str, bare: RawAudioFormat | None = None
) -> str:
    """The sample prompt string of a recording.

    Args:
        data: a sound file, or bare samples.
        param: the field in which it came.
        bare: what the samples are, where there is no header.

    Raises:
        ServingError: it is too long or too large, or no recording that can be used.
    """
    most = service.settings.limits.upload_bytes
    if len(data) > most:
        raise RequestTooLargeError(
            f"the recording has {len(data)} bytes; this server takes {most}", param=param
        )
    samples, rate = await service.in_reader_thread(lambda: read_recording(data, param, bare))
    try:
        return await service.encode_sample(samples, rate)
    except BadRequestError as error:
        raise BadRequestError(str(error), param=param) from error


def read_recording(
    data: bytes, param: str, bare: RawAudioFormat | None = None
) -> tuple[Samples, int]:
    """Mono samples (n,), full scale 1, and their rate.

    Args:
        data: a sound file of any kind that libsndfile knows, or bare samples.
        param: the field in which it came.
        bare: what the samples are, where there is no header.

    Raises:
        BadRequestError: it is no such file, or longer than a reference may be.
    """
    options: dict[str, Any] = {}
    if bare is not None:
        _check(bare.sample_rate, 1, param)
        options = {"samplerate": bare.sample_rate, "subtype": bare.subtype}
        options |= {"channels": 1, "format": "RAW"}
    try:
        with soundfile.SoundFile(io.BytesIO(data), **options) as sound:
            rate = int(sound.samplerate)
            _check(rate, int(sound.channels), param)
            # Headers may promise less than there is, or (of streams) more than anybody has; a
            # second more is enough to be found too long.
            most = int((MAX_SECONDS + 1) * rate)
            frames = sound.read(most, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, TypeError) as error:
        raise BadRequestError(
            "the recording cannot be read: send a wav, flac, mp3 or ogg file",
            param=param,
        ) from error
    if len(frames) > MAX_SECONDS * rate:
        raise BadRequestError(f"the recording is longer than {MAX_SECONDS:g} s", param=param)
    return np.ascontiguousarray(frames.mean(axis=1, dtype=np.float32)), rate


def _check(rate: int, channels: int, param: str) -> None:
    """Before anything is decoded, so that a small file cannot become gigabytes."""
    if channels > _MOST_CHANNELS or not 0 < rate <= _HIGHEST_RATE:
        raise BadRequestError(
            f"the recording has {channels} channels and {rate} samples a second: send at most "
            f"{_MOST_CHANNELS}, and at most {_HIGHEST_RATE}",
            param=param,
        )
