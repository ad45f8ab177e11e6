"""Reference audio, from which ``Chat.sample_audio_speaker`` takes a voice."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AudioError
from .files import SoundHeader, header, read
from .samples import SAMPLE_RATE, Samples, check_rate, is_path, resample, to_float
from .trim import trim_silence

MIN_SECONDS = 1.0
"""Shortest reference: a shorter one has too little of the voice."""

MAX_SECONDS = 30.0
"""Longest reference: a longer one leaves too few of the model's positions for speech."""

_MAX_CHANNELS = 8
_HIGHEST_RATE = 384_000
_MARGIN_S = 0.05  # around the speech; more of it is heard as the end
_SILENT_PEAK = 1e-4  # -80 dB of full scale
_LARGEST_PEAK = 8.0  # beyond any recording, but not beyond integers stored as float


def reference_audio(source: Any, sample_rate: int | None = None, *, trim: bool = False) -> Samples:
    """Return reference audio as float32 mono at 24 kHz, shape ``(n,)``.

    Args:
        source: a sound file's path; or an array, tensor or list of shape ``(n,)``,
            ``(channels, n)`` or ``(n, channels)``, float (full scale 1), int16, int32 or uint8.
            Channels are mixed into one (their mean).
        sample_rate: of an array, in Hz; ``None`` means 24 000. A file has its own.
        trim: leave out the silence at both ends. A recording that is too quiet to tell silence
            from speech stays whole.

    Raises:
        AudioError: the audio cannot be read, is shorter than ``MIN_SECONDS`` or longer than
            ``MAX_SECONDS``, is silent, is far beyond full scale, has NaN or infinity, or has a
            constant offset stronger than its sound.
    """
    if is_path(source):
        if sample_rate is not None:
            raise AudioError(
                f"sample_rate is for arrays; {source} has its own rate, so leave sample_rate out"
            )
        name = str(source)
        # The header first, so that an hour of audio is refused before it is decoded.
        _check_header(header(source), name)
        samples, rate = read(source, longest=MAX_SECONDS)
    else:
        name = "the reference audio"
        rate = SAMPLE_RATE if sample_rate is None else check_rate(sample_rate)
        samples = _mix(to_float(source, name), name)
    _check_length(len(samples) / rate, name)
    _check_sound(samples, name)
    samples = resample(samples, rate, SAMPLE_RATE)
    spoken = trim_silence(samples, margin_s=_MARGIN_S) if trim else samples
    return spoken if len(spoken) else samples


def _mix(samples: Samples, name: str) -> Samples:
    """Mix ``(n,)``, ``(channels, n)`` or ``(n, channels)`` into one channel."""
    if samples.ndim == 1:
        return samples
    if samples.ndim != 2 or min(samples.shape) > _MAX_CHANNELS:
        raise AudioError(
            f"{name} has shape {samples.shape}; give (n,), (channels, n) or (n, channels) "
            f"with at most {_MAX_CHANNELS} channels"
        )
    mixed: Samples = samples.mean(axis=int(np.argmin(samples.shape)))
    return mixed


def _check_header(said: SoundHeader, name: str) -> None:
    _check_length(said.seconds, name)
    check_kind(said, name)


def check_kind(said: SoundHeader, name: str) -> None:
    """Check the rate and the channels of a file: seconds of a very high rate are gigabytes.

    Raises:
        AudioError: they are higher than those of any recording of speech.
    """
    if said.channels > _MAX_CHANNELS or said.rate > _HIGHEST_RATE:
        raise AudioError(
            f"{name} has {said.channels} channels and {said.rate} samples a second; a reference "
            f"has at most {_MAX_CHANNELS}, and at most {_HIGHEST_RATE}"
        )


def _check_length(seconds: float, name: str) -> None:
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        wrong = "short" if seconds < MIN_SECONDS else "long"
        raise AudioError(
            f"{name} lasts {seconds:.2f} s, which is too {wrong}; a reference must last "
            f"{MIN_SECONDS:g} to {MAX_SECONDS:g} s (check the sample rate, too)"
        )


def _check_sound(samples: Samples, name: str) -> None:
    if not np.isfinite(samples).all():
        raise AudioError(f"{name} holds NaN or infinity")
    peak = float(np.abs(samples).max())
    if peak > _LARGEST_PEAK:
        raise AudioError(
            f"{name} has a peak of {peak:.6g} where full scale is 1; these look like integer "
            "samples stored as float (divide 16-bit values by 32768)"
        )
    offset = float(samples.mean(dtype=np.float64))
    sound = samples - np.float32(offset)
    if float(np.abs(sound).max()) < _SILENT_PEAK:
        raise AudioError(f"{name} is silent (peak {peak:.2g} of full scale 1)")
    if abs(offset) > float(sound.std(dtype=np.float64)):
        raise AudioError(
            f"{name} has a constant offset of {offset:.3g} that is stronger than its sound; "
            "subtract the mean"
        )
