"""Measure loudness and true peak of a long sound, piece by piece (ITU-R BS.1770-4, EBU R128)."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from copy import deepcopy

import numpy as np
from numpy.typing import NDArray

from ..audio.samples import SAMPLE_RATE, Samples
from .k_weighting import SPAN, KWeighting
from .settings import Loudness

_HOP = SAMPLE_RATE // 10
_HOPS = 4  # in a block of 400 ms
_OFFSET = -0.691
_ABSOLUTE_GATE, _RELATIVE_GATE = -70.0, -10.0
# Four samples for one; each is a sum over so many samples on each side.
OVERSAMPLING = 4
REACH = 12
# 5 ms, over which the limiter takes its gain back.
_LOOKAHEAD = SAMPLE_RATE * 5 // 1000
_CONTEXT = 2 * _LOOKAHEAD + REACH + 1
_BLOCK = SAMPLE_RATE
# dB below the ceiling, for peaks between the four samples, and since a changing gain moves them.
_MARGIN = 0.4


class LoudnessMeter:
    """The integrated loudness of one mono sound at 24 kHz.

    It keeps one number for each 100 ms. The result does not depend on how the sound was cut.
    """

    def __init__(self) -> None:
        self._weighting = KWeighting()
        self._energies = array("d")
        self._rest: Samples = np.zeros(0, dtype=np.float32)

    def push(self, samples: Samples) -> None:
        """Take the next float32 (n,)."""
        waiting = np.concatenate([self._rest, samples])
        whole = len(waiting) - len(waiting) % SPAN
        for start in range(0, whole, SPAN):
            self._energies.extend(_energies(self._weighting, waiting[start : start + SPAN]))
        self._rest = waiting[whole:].copy()

    @property
    def integrated(self) -> float:
        """The loudness so far, in LUFS; minus infinity for silence and for less than 400 ms."""
        missing = np.zeros(SPAN - len(self._rest), dtype=np.float32)
        last = _energies(deepcopy(self._weighting), np.concatenate([self._rest, missing]))
        hops = np.concatenate([self._energies, last[: len(self._rest) // _HOP]])
        if len(hops) < _HOPS:
            return -math.inf
        blocks = np.convolve(hops, np.ones(_HOPS), "valid") / (_HOPS * _HOP)
        loud = blocks[_level(blocks) >= _ABSOLUTE_GATE]
        if not len(loud):
            return -math.inf
        gate = float(_level(loud.mean())) + _RELATIVE_GATE
        loud = loud[_level(loud) > gate]
        return float(_level(loud.mean())) if len(loud) else -math.inf


class Limiter:
    """Bounds the true peak of one sound that comes piece by piece.

    The gain falls smoothly within 5 ms before a peak and rises after it, so there is no click. A
    sound below the ceiling is unchanged. The result does not depend on how the sound was cut.

    Args:
        gain: factor of all samples.
        ceiling: the highest true peak, in dBTP.
    """

    def __init__(self, gain: float, ceiling: float) -> None:
        self._gain = np.float32(gain)
        self._ceiling = 10 ** ((ceiling - _MARGIN) / 20)
        self._waiting: Samples = np.zeros(_CONTEXT, dtype=np.float32)

    def push(self, samples: Samples) -> Iterator[Samples]:
        """Take float32 (n,) and yield finished blocks."""
        self._waiting = np.concatenate([self._waiting, samples * self._gain])
        while len(self._waiting) >= _BLOCK + 2 * _CONTEXT:
            yield self._limited(self._waiting[: _BLOCK + 2 * _CONTEXT])
            self._waiting = self._waiting[_BLOCK:]

    def finish(self) -> Samples:
        """Return the last samples."""
        after = np.zeros(_CONTEXT, dtype=np.float32)
        return self._limited(np.concatenate([self._waiting, after]))

    def _limited(self, samples: Samples) -> Samples:
        """Return the middle of some samples, without the context at both ends."""
        middle: Samples = samples[_CONTEXT : len(samples) - _CONTEXT].copy()
        peaks = true_peaks(samples)
        if peaks.max(initial=0.0) <= self._ceiling:
            return middle
        peaks = -_lowest(-peaks, 1)
        wanted = self._ceiling / np.maximum(peaks, self._ceiling)
        width = 2 * _LOOKAHEAD + 1
        lowest = _lowest(wanted, _LOOKAHEAD)
        gains = np.convolve(lowest, np.full(width, 1 / width), "same")
        middle *= gains[_CONTEXT : len(samples) - _CONTEXT].astype(np.float32)
        return middle


def true_peaks(samples: Samples) -> NDArray[np.float64]:
    """Return the highest magnitude from each sample to the next one, 4 times oversampled, (n,)."""
    signal = samples.astype(np.float64)
    peaks: NDArray[np.float64] = np.abs(signal)
    if len(signal) < 2 * REACH:
        signal = np.concatenate([signal, np.zeros(2 * REACH)])
    for phase in range(1, OVERSAMPLING):
        between = np.convolve(signal, _sinc(phase / OVERSAMPLING))[REACH : REACH + len(peaks)]
        peaks = np.maximum(peaks, np.abs(between))
    return peaks


def _sinc(shift: float) -> NDArray[np.float64]:
    """Return the filter for the value ``shift`` samples after a sample, (2 * REACH,)."""
    times = np.arange(-REACH, REACH) + shift
    window = np.cos(np.pi * times / (2 * REACH)) ** 2
    taps: NDArray[np.float64] = np.sinc(times) * window
    taps /= taps.sum()
    return taps


def limited(sound: Iterable[Samples], gain: float, ceiling: float) -> Iterator[Samples]:
    """Yield a whole sound with a gain and a bound of its true peak."""
    limiter = Limiter(gain, ceiling)
    for samples in sound:
        yield from limiter.push(samples)
    yield limiter.finish()


def measured(sound: Iterable[Samples]) -> tuple[float, float]:
    """Return the integrated loudness of a sound, in LUFS, and its true peak as a factor."""
    meter, peak = LoudnessMeter(), 0.0
    before: Samples = np.zeros(0, dtype=np.float32)
    for samples in sound:
        meter.push(samples)
        joined = np.concatenate([before, samples])
        peak = max(peak, float(true_peaks(joined).max(initial=0.0)))
        before = joined[-2 * REACH :]
    return meter.integrated, peak


def gain_for(loudness: float, target: Loudness) -> float:
    """Return the factor from a measured loudness, in LUFS, to the target's; 1 for silence."""
    return 1.0 if math.isinf(loudness) else float(10 ** ((target.lufs - loudness) / 20))


def _energies(weighting: KWeighting, samples: Samples) -> NDArray[np.float64]:
    """Return the energy of each 100 ms of the next float32 (SPAN,)."""
    energies: NDArray[np.float64] = np.square(weighting.push(samples)).reshape(-1, _HOP).sum(axis=1)
    return energies


def _lowest(values: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """Return for each value the lowest one among it and ``reach`` values on each side."""
    width, size = 2 * reach + 1, 1
    lowest = np.pad(values, reach, mode="edge")
    while size < width:
        # The lowest of `size` values each, so of two such rows that overlap or touch.
        step = min(size, width - size)
        lowest = np.minimum(lowest[:-step], lowest[step:])
        size += step
    return lowest


def _level(energy: NDArray[np.float64] | np.floating) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        levels: NDArray[np.float64] = _OFFSET + 10 * np.log10(energy)
    return levels
