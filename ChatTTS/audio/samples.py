"""Convert all kinds of audio arguments to plain float32 samples.

This module does not import torch: it recognizes a tensor by its methods.
"""

from __future__ import annotations

import hashlib
import operator
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import MelConfig
from ..errors import AudioError

SAMPLE_RATE = MelConfig().sample_rate
"""Sample rate of the models' audio, in Hz."""

Samples = NDArray[np.float32]
StrPath = str | os.PathLike[str]

# Of an integer type: its full scale, and the value of silence.
_INTEGER_SCALES = {
    np.dtype(np.uint8): (128.0, 128.0),
    np.dtype(np.int16): (32768.0, 0.0),
    np.dtype(np.int32): (2147483648.0, 0.0),
}


def is_path(source: object) -> bool:
    """Return whether ``source`` is a path, and not samples."""
    return isinstance(source, str | os.PathLike)


def to_float(wav: Any, name: str = "wav") -> Samples:
    """Return a float32 copy of ``wav`` in its own shape; full scale is 1.

    Args:
        wav: an array, torch tensor or nested list of floats, int16, int32 or uint8; a list that
            holds one waveform (what ``Chat.infer`` returns for one text) stands for the waveform.
        name: its name in error messages.

    Raises:
        AudioError: it has no numbers, a type without a known full scale, NaN or infinity.
    """
    array = _to_array(wav, name)
    if array.dtype in _INTEGER_SCALES:
        scale, zero = _INTEGER_SCALES[array.dtype]
        return ((array.astype(np.float64) - zero) / scale).astype(np.float32)
    if array.dtype.kind != "f":
        raise AudioError(
            f"{name} holds {array.dtype} values, which have no known full scale; "
            "give float (full scale 1), int16, int32 or uint8"
        )
    with np.errstate(over="ignore"):  # the next check finds an overflow
        samples = array.astype(np.float32)
    bad = samples.size - int(np.count_nonzero(np.isfinite(samples)))
    if bad:
        raise AudioError(f"{name} holds NaN or infinity in {bad} of {samples.size} samples")
    return samples


def to_mono(wav: Any, name: str = "wav") -> Samples:
    """Return one waveform as a float32 copy of shape ``(n,)``; ``n`` may be 0.

    Axes of length 1 are dropped, so ``(1, n)`` and ``(n, 1)`` are accepted.

    Raises:
        AudioError: as ``to_float``, or the shape is a single number or more than one waveform.
    """
    samples = to_float(wav, name)
    if samples.ndim == 0:
        raise AudioError(f"{name} is a single number; give an array of samples")
    if sum(length != 1 for length in samples.shape) > 1:
        raise AudioError(
            f"{name} has shape {samples.shape}, which is more than one waveform; "
            f"give one at a time, such as {name}[0]"
        )
    return samples.reshape(-1)


def check_rate(sample_rate: Any) -> int:
    """Return ``sample_rate`` as an int; raise AudioError if it is no positive whole number."""
    try:
        rate = operator.index(sample_rate)
    except TypeError:
        rate = 0
    if rate <= 0 or isinstance(sample_rate, bool):
        raise AudioError(
            f"sample_rate must be a positive whole number (samples a second), not {sample_rate!r}"
        )
    return rate


def resample(samples: Samples, source_rate: int, target_rate: int) -> Samples:
    """Resample ``(n,)`` or ``(channels, n)`` with soxr's best filter."""
    if source_rate == target_rate:
        return samples
    import soxr

    resampled: Samples = soxr.resample(samples.T, source_rate, target_rate, quality="VHQ").T
    return np.ascontiguousarray(resampled, dtype=np.float32)


def _to_array(wav: Any, name: str) -> NDArray[Any]:
    if isinstance(wav, list | tuple) and wav and hasattr(wav[0], "__len__"):
        if len(wav) > 1:
            raise AudioError(
                f"{name} is a {type(wav).__name__} of {len(wav)} waveforms; "
                f"give one at a time, such as {name}[0]"
            )
        return _to_array(wav[0], name)
    if hasattr(wav, "detach"):
        tensor = wav.detach().cpu()
        try:
            return np.asarray(tensor.numpy())
        except TypeError:  # bfloat16, which numpy does not have
            return np.asarray(tensor.float().numpy())
    try:
        array = np.asarray(wav)
    except ValueError as error:
        raise AudioError(f"{name} is not a regular array of samples ({error})") from error
    if array.dtype.kind in "OUSV":
        raise AudioError(
            f"{name} is of type {type(wav).__name__}, which holds no samples; "
            "give an array or a tensor"
        )
    return array


def digest_of(samples: Samples, sample_rate: int) -> bytes:
    """Return a hash of a recording; it makes no copy, which would hold Python's lock."""
    digest = hashlib.sha256(f"{sample_rate}".encode())
    digest.update(np.ascontiguousarray(samples).data)
    return digest.digest()
