"""Compare two waveforms, in numbers and in a plot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AudioError
from .files import read
from .samples import SAMPLE_RATE, Samples, StrPath, check_rate, is_path, to_mono
from .spectrum import log_spectral_distance


@dataclass(frozen=True)
class Comparison:
    """The result of ``compare``; ``str()`` gives a readable summary.

    All numbers but the lengths are of the part that both waveforms have.

    Attributes:
        samples_a: length of ``a`` in samples.
        samples_b: length of ``b`` in samples.
        max_difference: largest absolute difference of two samples; full scale is 1.
        snr_db: energy of ``a`` over that of ``b - a``, in dB; infinite when they are equal.
        log_spectral_distance_db: see ``compare``; 0 when they are equal.
        sample_rate: in Hz.
    """

    samples_a: int
    samples_b: int
    max_difference: float
    snr_db: float
    log_spectral_distance_db: float
    sample_rate: int = SAMPLE_RATE

    @property
    def identical(self) -> bool:
        """Return whether both have the same number of samples and every sample is equal."""
        return self.samples_a == self.samples_b and self.max_difference == 0

    def __str__(self) -> str:
        if self.identical:
            return f"identical: {self._length(self.samples_a)}"
        if self.samples_a == self.samples_b:
            lengths = f"{self._length(self.samples_a)} in both"
        else:
            shorter = min(self.samples_a, self.samples_b)
            lengths = (
                f"{self._length(self.samples_a)} and {self._length(self.samples_b)}; "
                f"only the first {shorter:,} are compared"
            )
        return (
            f"different: {lengths}\n"
            f"  max difference         {self.max_difference:.3g} of full scale\n"
            f"  SNR                    {self.snr_db:.1f} dB\n"
            f"  log-spectral distance  {self.log_spectral_distance_db:.2f} dB"
        )

    def _length(self, samples: int) -> str:
        return f"{samples:,} samples ({samples / self.sample_rate:.2f} s)"


def compare(
    a: Any, b: Any, *, sample_rate: int = SAMPLE_RATE, plot: StrPath | None = None
) -> Comparison:
    """Compare waveform ``b`` with the reference ``a``.

    The log-spectral distance compares short-time magnitude spectra (Hann window and FFT of 1024
    samples, hop 256, zeros beyond the ends) in dB, where a full-scale sine has 0 dB. Values below
    -80 dB are inaudible and are raised to -80 dB. The distance of a frame is the RMS, over its 513
    bins, of the difference of the two spectra. The result is the mean over the frames.

    Where the lengths differ, only the part that both have is compared.

    Args:
        a, b: sound files' paths (mono), or waveforms: array, tensor or list of shape ``(n,)``,
            ``(1, n)`` or ``(n, 1)``, float (full scale 1) or int16.
        sample_rate: of arrays, in Hz; files have their own.
        plot: also draw both waveforms, and their difference, to this ``.png``, ``.svg`` or ``.pdf``
            (needs matplotlib: ``pip install 'chattts-velocity[plot]'``).

    Raises:
        AudioError: a waveform cannot be used or is empty, the rates differ, or the plot cannot be
            drawn.
    """
    name_a, samples_a, rate_a = _load(a, "a", sample_rate)
    name_b, samples_b, rate_b = _load(b, "b", sample_rate)
    if rate_a != rate_b:
        raise AudioError(
            f"the sample rates differ: {name_a} has {rate_a}, {name_b} has {rate_b}; "
            "resample one of them first"
        )
    common = min(len(samples_a), len(samples_b))
    part_a, part_b = samples_a[:common], samples_b[:common]
    difference = part_b.astype(np.float64) - part_a
    comparison = Comparison(
        samples_a=len(samples_a),
        samples_b=len(samples_b),
        max_difference=float(np.abs(difference).max()),
        snr_db=_snr_db(part_a.astype(np.float64), difference),
        log_spectral_distance_db=log_spectral_distance(part_a, part_b),
        sample_rate=rate_a,
    )
    if plot is not None:
        from .plot import plot_comparison

        plot_comparison(
            (_title("a", name_a), samples_a),
            (_title("b", name_b), samples_b),
            plot,
            sample_rate=rate_a,
            text=str(comparison),
        )
    return comparison


def _load(source: Any, name: str, sample_rate: int) -> tuple[str, Samples, int]:
    """Return the name, samples ``(n,)`` and rate of a path or of an array."""
    if not is_path(source):
        samples = to_mono(source, name)
        if not samples.size:
            raise AudioError(f"{name} is empty; there is nothing to compare")
        return name, samples, check_rate(sample_rate)
    channels, rate = read(source, mono=False)
    if len(channels) != 1:
        raise AudioError(
            f"{source} has {len(channels)} channels; compare one at a time (as arrays, "
            "or mixed down to mono)"
        )
    return Path(source).name, to_mono(channels, str(source)), rate


def _title(letter: str, name: str) -> str:
    return letter if name == letter else f"{letter}: {name}"


def _snr_db(signal: np.ndarray, noise: np.ndarray) -> float:
    noise_energy = float(np.sum(np.square(noise)))
    signal_energy = float(np.sum(np.square(signal)))
    if not noise_energy:
        return math.inf
    if not signal_energy:
        return -math.inf
    return 10 * math.log10(signal_energy / noise_energy)
