"""Faults of a recording's sound: clipping, noise, music.

Each measure is a number that a recording of speech keeps on one side of a bound. Silence, lengths
and rates are checked where files are read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..audio.samples import SAMPLE_RATE, Samples

_CLIPPED_RUN = 3  # equal samples at the peak; a sound wave has one or two there
_MOST_CLIPPED = 1e-3  # share of the samples
_QUIET_PEAK = 0.25  # a lower peak was not cut off by a converter

_LEVEL_FRAME = 480  # 20 ms
_LEAST_RANGE_DB = 15.0

# Spectra that resolve notes, and the time in which the pitch of speech moves.
_N_FFT, _HOP, _HELD_FRAMES = 2048, 480, (5, 10)
_LOWEST_HZ, _HIGHEST_HZ = 160.0, 4000.0
_PEAK_DB, _NEIGHBOURS = 12.0, 12  # above the mean of so many bins on each side
_LOUD_DB = -35.0  # peaks below the loudest one by more are not counted
_MOST_HELD = 0.4


def fault_of(samples: Samples, wave: Samples) -> str | None:
    """Return what is wrong with a recording, or ``None``.

    Args:
        samples: float32 [n] at the file's own rate, where clipping can be seen.
        wave: the same at 24 kHz, without the silence at its ends.
    """
    clipped = clipped_share(samples)
    if clipped > _MOST_CLIPPED:
        return (
            f"it is clipped ({100 * clipped:.2g} % of its samples are cut off at the peak): record "
            "it with a lower level"
        )
    held = held_share(wave)
    if held > _MOST_HELD:
        return (
            f"it sounds like music: {100 * held:.0f} % of its tones hold their pitch, where those "
            "of speech glide"
        )
    found = level_range(wave)
    if found < _LEAST_RANGE_DB:
        return (
            f"it is noisy, or no speech: its loud moments are only {found:.0f} dB above its quiet "
            f"ones, less than {_LEAST_RANGE_DB:g} dB"
        )
    return None


def clipped_share(samples: Samples) -> float:
    """Return the share of samples in runs of equal ones at the peak, 0 to 1."""
    size = np.abs(samples)
    peak = float(size.max(initial=0.0))
    if peak < _QUIET_PEAK:
        return 0.0
    at_peak = np.concatenate([[0], (size >= peak * (1 - 1e-4)).astype(np.int8), [0]])
    edges = np.diff(at_peak)
    runs = np.flatnonzero(edges < 0) - np.flatnonzero(edges > 0)
    return float(runs[runs >= _CLIPPED_RUN].sum() / max(1, len(samples)))


def level_range(wave: Samples) -> float:
    """Return the range between loud moments (95 %) and quiet ones (10 %) of samples [n], in dB."""
    frames = len(wave) // _LEVEL_FRAME
    power = np.square(wave[: frames * _LEVEL_FRAME].reshape(frames, -1), dtype=np.float64)
    quiet, loud = np.quantile(10 * np.log10(power.mean(axis=1) + 1e-12), (0.1, 0.95))
    return float(loud - quiet)


def held_share(wave: Samples) -> float:
    """Return the share of tones that are still there after 100 and 200 ms, 0 to 1."""
    peaks = _peaks(wave)
    wide = peaks.copy()  # a tone may move by one bin
    wide[:, 1:] |= peaks[:, :-1]
    wide[:, :-1] |= peaks[:, 1:]
    last = max(_HELD_FRAMES)
    if len(peaks) <= last:
        return 0.0
    held = peaks[:-last].copy()
    for later in _HELD_FRAMES:
        held &= wide[later : len(peaks) - last + later]
    return float(held.sum() / max(1, peaks[:-last].sum()))


def _peaks(wave: Samples) -> NDArray[np.bool_]:
    """Return where tones stand out of the spectrogram, bool [frames, bins]."""
    padded = np.pad(wave.astype(np.float64), _N_FFT // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _N_FFT)[::_HOP]
    spectra = np.abs(np.fft.rfft(frames * np.hanning(_N_FFT)))
    first, last = (int(hz * _N_FFT / SAMPLE_RATE) for hz in (_LOWEST_HZ, _HIGHEST_HZ))
    level = 20 * np.log10(spectra[:, first - _NEIGHBOURS : last + _NEIGHBOURS + 1] + 1e-9)
    sums = np.cumsum(np.pad(level, ((0, 0), (1, 0))), axis=1)
    width = 2 * _NEIGHBOURS + 1
    around = (sums[:, width:] - sums[:, :-width]) / width
    inner = level[:, _NEIGHBOURS:-_NEIGHBOURS]
    is_top = (inner >= level[:, _NEIGHBOURS - 1 : -_NEIGHBOURS - 1]) & (
        inner > level[:, _NEIGHBOURS + 1 : level.shape[1] - _NEIGHBOURS + 1]
    )
    loud = inner > inner.max(initial=-180.0) + _LOUD_DB
    found: NDArray[np.bool_] = is_top & loud & (inner - around > _PEAK_DB)
    return found
