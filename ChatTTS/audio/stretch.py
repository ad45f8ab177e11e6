"""Make a short passage of speech longer or shorter at the same pitch, with both ends as they were.

Periods of the wave are repeated or left out, and each joint is faded over at the lag at which both
sides are most alike. So the passage continues into what follows it without a seam.
"""

from __future__ import annotations

import numpy as np

from .samples import SAMPLE_RATE, Samples

_FADE = SAMPLE_RATE * 8 // 1000
# The length that a joint adds or takes away: at least a period of a voice of 200 Hz.
_SHORTEST, _LONGEST = SAMPLE_RATE * 5 // 1000, SAMPLE_RATE * 15 // 1000
# Samples at each end that stay as they are.
_KEPT = SAMPLE_RATE * 10 // 1000


def stretched(samples: Samples, factor: float) -> Samples:
    """Return ``samples`` (n,) with about ``factor`` times their length, 15 ms more or less.

    Only joints that fit between the ends are made, so a passage of less than 60 ms stays as it is.

    Args:
        factor: from 0.5 to 2; above 1 is longer and slower.
    """
    wanted = round(len(samples) * (factor - 1))
    joints = round(abs(wanted) / (1.5 * _SHORTEST))
    first, last = _KEPT + _LONGEST, len(samples) - _KEPT - _LONGEST - _FADE
    if not joints or last <= first:
        unchanged: Samples = samples.copy()
        return unchanged
    pieces: list[Samples] = []
    start = gained = 0
    for place in np.linspace(first, last, joints + 2)[1:-1].astype(int):
        place = max(int(place), start + _FADE)
        if place > last or abs(gained) + _SHORTEST / 2 > abs(wanted):
            break
        lag = _best_lag(samples, place, forwards=wanted < 0)
        pieces.append(samples[start:place])
        pieces.append(_faded(samples, place, place + lag))
        start = place + lag + _FADE
        gained -= lag
    pieces.append(samples[start:])
    return np.concatenate(pieces)


def _best_lag(samples: Samples, place: int, *, forwards: bool) -> int:
    """Return how far from ``place`` the wave is most like that at ``place``."""
    wave = samples[place : place + _FADE].astype(np.float64)
    low = place + _SHORTEST if forwards else place - _LONGEST
    others = np.lib.stride_tricks.sliding_window_view(
        samples[low : low + _LONGEST - _SHORTEST + _FADE].astype(np.float64), _FADE
    )
    likeness = (others @ wave) / np.sqrt((others**2).sum(axis=1) + 1e-9)
    return low + int(np.argmax(likeness)) - place


def _faded(samples: Samples, first: int, second: int) -> Samples:
    """Return a cross-fade from the wave at ``first`` to that at ``second``."""
    rise = np.linspace(0, 1, _FADE, dtype=np.float32)
    faded: Samples = (
        samples[first : first + _FADE] * (1 - rise) + samples[second : second + _FADE] * rise
    )
    return faded
