"""Rules of a comparison, and the places where two sounds differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..audio.compare import compare
from ..audio.samples import Samples
from ..errors import ConfigError
from .sounds import Sound

_FRAME = 0.02  # seconds
_NOTICED_DB = 30.0  # SNR of a frame below which it differs, against the mean of the reference
_STEP = 2.0**-15  # of the 16 bits in which references are kept


@dataclass(frozen=True)
class Rules:
    """The demands of a test; at least one of them.

    Attributes:
        exact: every sample is equal, to the last bit.
        snr: least SNR against the reference, in dB.
        spectral: greatest log-spectral distance from the reference, in dB.
        words: the English words that a recogniser must hear, each once and in order.

    Raises:
        ConfigError: there is no rule, or a number that is none.
    """

    exact: bool = False
    snr: float | None = None
    spectral: float | None = None
    words: str | None = None

    def __post_init__(self) -> None:
        if not (self.needs_reference or self.words):
            raise ConfigError("give a rule: exact=True, snr=40, spectral=1.0 or words='...'")
        for name in ("snr", "spectral"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise ConfigError(f"{name} must be a number of dB above 0, not {value!r}")

    @property
    def needs_reference(self) -> bool:
        """Return whether a rule compares with a reference."""
        return self.exact or self.compares

    @property
    def compares(self) -> bool:
        """Return whether a rule needs the sound of a reference, and not only its hash."""
        return self.snr is not None or self.spectral is not None

    def broken(self, old: Sound, new: Sound) -> list[str]:
        """Return by how much ``new`` breaks the rules about distances; nothing if it keeps them."""
        if old.rate != new.rate:
            return [f"{new.rate} samples a second, and the reference has {old.rate}"]
        lines = []
        if self.snr is not None:
            found = compare(old.samples, new.samples, sample_rate=new.rate)
            if len(old.samples) != len(new.samples):
                lines.append(f"{new.length}, and the reference has {old.length}")
            if found.snr_db < self.snr:
                lines.append(f"SNR {found.snr_db:.1f} dB, less than {self.snr:g} dB")
        if self.spectral is not None:
            padded = compare(*_padded(old, new), sample_rate=new.rate)
            distance = padded.log_spectral_distance_db
            if distance > self.spectral:
                lines.append(f"log-spectral distance {distance:.2f} dB, over {self.spectral:g} dB")
        return lines


def first_and_worst(old: Sound, new: Sound) -> tuple[float, float] | None:
    """Return the seconds of the first and of the greatest difference; both have one rate.

    ``None`` where it is no greater than the steps in which references are kept.
    """
    a, b = _padded(old, new)
    size = max(1, round(_FRAME * new.rate))
    noise = _energies(b - a, size)
    worst = int(np.argmax(noise))
    if noise[worst] <= size * _STEP**2:
        return None
    limit = float(np.mean(_energies(a, size))) * 10 ** (-_NOTICED_DB / 10)
    noticed = np.flatnonzero(noise > limit)
    first = int(noticed[0]) if noticed.size else worst
    return first * size / new.rate, worst * size / new.rate


def _padded(old: Sound, new: Sound) -> tuple[Samples, Samples]:
    """Return the samples of both, the shorter one with silence at its end."""
    length = max(len(old.samples), len(new.samples))
    a, b = (np.pad(each.samples, (0, length - len(each.samples))) for each in (old, new))
    return a, b


def _energies(samples: Samples, size: int) -> np.ndarray:
    """Return the energy of each frame of ``size`` samples."""
    padded = np.pad(samples, (0, -len(samples) % size)).astype(np.float64)
    return np.asarray(np.square(padded).reshape(-1, size).sum(axis=1))
