"""Recordings that clients send: decoding them, and making sample prompts of them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import soundfile

from ...audio.reference import MAX_SECONDS
from ...audio.samples import Samples
from ...errors import AudioError
from ..errors import BadRequestError, RequestTooLargeError
from . import containers
from .service import SpeechService

# A small file can decode to very many samples. Recordings of speech stay below these limits.
_MOST_CHANNELS = 2
_HIGHEST_RATE = 192_000


@dataclass(frozen=True)
class RawAudioFormat:
    """The format of mono samples without a header.

    Attributes:
        subtype: libsndfile's name of the encoding, such as ``PCM_16``.
        sample_rate: in Hz.
    """

    subtype: str
    sample_rate: int


async def sample_prompt(
    service: SpeechService, data: bytes, param: str, raw: RawAudioFormat | None = None
) -> str:
    """Return the sample prompt string of a recording.

    Args:
        data: an audio file, or raw samples.
        param: the request's field that contained it, for error messages.
        raw: format of raw samples; ``None`` for a file.

    Raises:
        ServingError: the recording is too long, too large, or cannot be used.
    """
    most = service.settings.limits.upload_bytes
    if len(data) > most:
        raise RequestTooLargeError(
            f"the recording has {len(data)} bytes; the limit is {most}", param=param
        )
    samples, rate = await service.in_reader_thread(lambda: read_recording(data, param, raw))
    try:
        return await service.encode_sample(samples, rate)
    except BadRequestError as error:
        raise BadRequestError(str(error), param=param) from error


def read_recording(
    data: bytes, param: str, raw: RawAudioFormat | None = None
) -> tuple[Samples, int]:
    """Return the samples of a recording, mono float32 (n,) with full scale 1, and their rate in Hz.

    Args:
        data: an audio file in any format that libsndfile reads, MP4 (m4a), WebM, Matroska or AAC;
            or raw samples.
        param: the request's field that contained it, for error messages.
        raw: format of raw samples; ``None`` for a file.

    Raises:
        BadRequestError: the data cannot be decoded, or are longer than a reference may be.
    """
    container = None if raw is not None else containers.find(data)
    if container is not None:
        return _read_container(data, param, container)
    options: dict[str, Any] = {}
    if raw is not None:
        _check(raw.sample_rate, 1, param)
        options = {"samplerate": raw.sample_rate, "subtype": raw.subtype}
        options |= {"channels": 1, "format": "RAW"}
    try:
        with soundfile.SoundFile(io.BytesIO(data), **options) as sound:
            rate = int(sound.samplerate)
            _check(rate, int(sound.channels), param)
            # The length in a header may be too small, or (for a stream) far too large. So the
            # limit and one second more are read, which shows that a recording is too long.
            most = int((MAX_SECONDS + 1) * rate)
            frames = sound.read(most, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, TypeError) as error:
        raise BadRequestError(
            "the recording cannot be read: send a wav, flac, mp3, ogg, m4a or webm file",
            param=param,
        ) from error
    _check_length(len(frames), rate, param)
    return np.ascontiguousarray(frames.mean(axis=1, dtype=np.float32)), rate


def _read_container(data: bytes, param: str, container: str) -> tuple[Samples, int]:
    def check(rate: int, channels: int) -> None:
        _check(rate, channels, param)

    try:
        samples, rate = containers.read(data, container, MAX_SECONDS + 1, check)
    except AudioError as error:
        raise BadRequestError(str(error), param=param) from error
    _check_length(len(samples), rate, param)
    return samples, rate


def _check_length(count: int, rate: int, param: str) -> None:
    if count > MAX_SECONDS * rate:
        raise BadRequestError(f"the recording is longer than {MAX_SECONDS:g} s", param=param)


def _check(rate: int, channels: int, param: str) -> None:
    """Raise BadRequestError before decoding, so that a small file cannot become gigabytes."""
    if channels > _MOST_CHANNELS or not 0 < rate <= _HIGHEST_RATE:
        raise BadRequestError(
            f"the recording has {channels} channels and {rate} samples a second: send at most "
            f"{_MOST_CHANNELS}, and at most {_HIGHEST_RATE}",
            param=param,
        )
