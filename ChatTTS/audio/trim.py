"""Remove silence at the ends of a waveform."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AudioError
from .samples import SAMPLE_RATE, Samples, check_rate, to_mono

_FRAME_SECONDS = 0.01
_INAUDIBLE_RMS = 1e-3  # -60 dB of full scale
AUDIBLE = 10 ** (-50 / 20)
"""A sample of this size, 50 dB below full scale, is heard; smaller ones are noise of the voice."""


def trim_silence(
    wav: Any,
    threshold_db: float = -40.0,
    margin_s: float = 0.02,
    *,
    sample_rate: int = SAMPLE_RATE,
) -> Samples:
    """Return a copy of ``wav`` without the silence at its two ends.

    The level is the RMS of frames of 10 ms. A frame is silent if its level is more than
    ``-threshold_db`` below the loudest frame, so a quiet recording keeps its words. A waveform
    whose loudest frame is below -60 dB of full scale is all silence.

    Args:
        wav: one waveform, float (full scale 1) or integer, array, tensor or list.
        threshold_db: level of silence relative to the loudest frame, in dB; below 0.
        margin_s: seconds kept before the first and after the last frame that is not silent.
        sample_rate: in Hz.

    Returns:
        float32 samples of shape ``(m,)`` with ``m <= n``; empty if all is silence.

    Raises:
        AudioError: the samples cannot be used, or an argument is out of its range.
    """
    samples = to_mono(wav)
    start, stop = speech_bounds(samples, threshold_db, margin_s, sample_rate=sample_rate)
    trimmed: Samples = samples[start:stop].copy()
    return trimmed


def speech_bounds(
    samples: Samples,
    threshold_db: float = -40.0,
    margin_s: float = 0.02,
    *,
    sample_rate: int = SAMPLE_RATE,
) -> tuple[int, int]:
    """Return the first sample that :func:`trim_silence` keeps of float32 (n,), and the last plus 1.

    Arguments and errors are those of :func:`trim_silence`; all silence gives ``(0, 0)``.
    """
    if not threshold_db < 0:
        raise AudioError(f"threshold_db must be below 0, not {threshold_db!r}")
    if not 0 <= margin_s < np.inf:
        raise AudioError(f"margin_s must be 0 or more seconds, not {margin_s!r}")
    rate = check_rate(sample_rate)
    frame = max(1, round(rate * _FRAME_SECONDS))
    levels = _frame_rms(samples, frame)
    loudest = levels.max(initial=0.0)
    if loudest < _INAUDIBLE_RMS:
        return 0, 0
    loud = np.flatnonzero(levels >= loudest * 10 ** (threshold_db / 20))
    margin = round(margin_s * rate)
    start = max(0, int(loud[0]) * frame - margin)
    return start, min(len(samples), int(loud[-1] + 1) * frame + margin)


def audible_bounds(samples: Samples) -> tuple[int, int]:
    """Return the first audible sample of float32 (n,), and the last plus 1; ``(0, 0)`` for none."""
    audible = np.flatnonzero(np.abs(samples) >= AUDIBLE)
    return (int(audible[0]), int(audible[-1]) + 1) if len(audible) else (0, 0)


def _frame_rms(samples: Samples, frame: int) -> np.ndarray:
    """Return the RMS of consecutive frames of ``frame`` samples; the last may be shorter."""
    starts = np.arange(0, len(samples), frame)
    if not len(starts):
        return np.zeros(0)
    energies = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    counts = np.diff(np.append(starts, len(samples)))
    return np.sqrt(energies / counts)
