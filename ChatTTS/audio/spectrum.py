"""Short-time spectra in decibels, for comparisons and plots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .samples import Samples

N_FFT = 1024
HOP = 256
FLOOR_DB = -80.0

# Frames transformed at once, to bound the memory for long recordings.
_BLOCK = 2048


def log_spectra(samples: Samples, hop: int = HOP) -> Iterator[NDArray[np.float64]]:
    """Yield the log-magnitude spectrogram of ``samples`` (n,) in blocks ``(frames, 513)``, in dB.

    Hann window and FFT of ``N_FFT`` samples; ``1 + n // hop`` frames, the first centred on sample
    0, with zeros beyond the ends. A sine at full scale has 0 dB; values below ``FLOOR_DB`` are
    raised to it.
    """
    window = np.hanning(N_FFT + 1)[:-1]
    padded = np.pad(samples.astype(np.float64), N_FFT // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::hop]
    for start in range(0, len(frames), _BLOCK):
        magnitude = np.abs(np.fft.rfft(frames[start : start + _BLOCK] * window))
        yield 20 * np.log10(np.maximum(magnitude * (2 / window.sum()), 10 ** (FLOOR_DB / 20)))


def log_spectral_distance(a: Samples, b: Samples) -> float:
    """Return the mean over frames of the RMS over bins of two spectrograms' difference, in dB.

    ``a`` and ``b`` have the same length; the spectrograms are those of ``log_spectra``.
    """
    total, frames = 0.0, 0
    for block_a, block_b in zip(log_spectra(a), log_spectra(b), strict=True):
        per_frame = np.sqrt(np.mean(np.square(block_a - block_b), axis=1))
        total += float(per_frame.sum())
        frames += len(per_frame)
    return total / frames


def mel(frequency: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Convert frequencies in Hz to HTK mel."""
    return np.asarray(2595.0 * np.log10(1.0 + np.asarray(frequency) / 700.0))


def mel_rows(spectrogram: NDArray[np.float64], rate: int, rows: int) -> NDArray[np.float64]:
    """Average ``(frames, bins)`` into ``(frames, rows)`` of equal width on the mel scale.

    A row narrower than a bin takes its share of that bin, so low frequencies have no gaps.
    """
    bins = spectrogram.shape[1]
    top = float(mel(rate / 2))
    edges_hz = 700.0 * (10 ** (np.linspace(0.0, top, rows + 1) / 2595.0) - 1.0)
    edges = edges_hz / (rate / 2) * bins
    sums = np.pad(np.cumsum(spectrogram, axis=1), ((0, 0), (1, 0)))
    # The integral up to a fractional bin is a linear interpolation between running sums.
    lower = np.minimum(edges.astype(int), bins - 1)
    share = edges - lower
    integral = sums[:, lower] * (1 - share) + sums[:, lower + 1] * share
    return np.asarray(np.diff(integral, axis=1) / np.diff(edges))
