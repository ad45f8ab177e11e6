"""The K-weighting of ITU-R BS.1770-4, for a long sound piece by piece.

NumPy alone computes it: scipy's filters would take 50 MB of memory beside the model's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..audio.samples import SAMPLE_RATE, Samples

Array = NDArray[np.float64]

# Samples of a block, and blocks that are computed together. Always as many, since a product of
# another shape may be rounded otherwise.
_BLOCK, _BLOCKS = 96, 125
# Rows of one product. BLAS computes a product this small on the calling thread; on a busy machine
# its threads wait for one another a hundred times longer than they compute.
_ROWS = 25
SPAN = _BLOCK * _BLOCKS
"""Samples that :meth:`KWeighting.push` takes at once: half a second."""


class KWeighting:
    """The two filters of the standard in a row: a shelf for the head, and a high-pass.

    Each is a recursion over samples. Its state moves from block to block by a product, and inside
    of a block the output is a product with the impulse response.
    """

    def __init__(self) -> None:
        self._filters = [_Biquad(*_high_shelf(1500.0, 4.0)), _Biquad(*_high_pass(38.0))]

    def push(self, samples: Samples) -> Array:
        """Return the weighted samples of the next float32 (SPAN,), as float64 (SPAN,)."""
        weighted: Array = samples.astype(np.float64)
        for each in self._filters:
            weighted = each.push(weighted)
        return weighted


class _Biquad:
    """A filter with two poles and two zeros: ``b`` over ``a``, each (3,), with a[0] = 1."""

    def __init__(self, b: Array, a: Array) -> None:
        # The state is that of the transposed direct form II.
        step = np.array([[-a[1], 1.0], [-a[2], 0.0]])
        enter = np.array([b[1] - a[1] * b[0], b[2] - a[2] * b[0]])
        powers = [np.eye(2)]
        for _ in range(_BLOCK):
            powers.append(powers[-1] @ step)
        response = np.array([b[0], *(powers[age][0] @ enter for age in range(_BLOCK - 1))])
        ages = np.arange(_BLOCK)[None, :] - np.arange(_BLOCK)[:, None]
        self._inside = np.where(ages >= 0, response[np.abs(ages)], 0.0)
        self._leaving = np.stack([power @ enter for power in powers[_BLOCK - 1 :: -1]])
        self._ringing = np.stack([power[0] for power in powers[:_BLOCK]], axis=1)
        self._step = powers[_BLOCK]
        self._state = np.zeros(2)

    def push(self, samples: Array) -> Array:
        blocks = samples.reshape(_BLOCKS, _BLOCK)
        states = np.empty((_BLOCKS, 2))
        state = self._state
        for number, leaving in enumerate(blocks @ self._leaving):
            states[number] = state
            state = self._step @ state + leaving
        self._state = state
        inside = blocks.reshape(-1, _ROWS, _BLOCK) @ self._inside
        weighted: Array = inside.reshape(-1) + (states @ self._ringing).reshape(-1)
        return weighted


def _high_shelf(frequency: float, decibels: float) -> tuple[Array, Array]:
    cosine, alpha = _angle(frequency, 1 / math.sqrt(2))
    gain = 10 ** (decibels / 40)
    more, less, slope = gain + 1, gain - 1, 2 * math.sqrt(gain) * alpha
    b = [
        gain * (more + less * cosine + slope),
        -2 * gain * (less + more * cosine),
        gain * (more + less * cosine - slope),
    ]
    a = [
        more - less * cosine + slope,
        2 * (less - more * cosine),
        more - less * cosine - slope,
    ]
    return _normal(b, a)


def _high_pass(frequency: float) -> tuple[Array, Array]:
    cosine, alpha = _angle(frequency, 0.5)
    b = [(1 + cosine) / 2, -(1 + cosine), (1 + cosine) / 2]
    return _normal(b, [1 + alpha, -2 * cosine, 1 - alpha])


def _angle(frequency: float, quality: float) -> tuple[float, float]:
    angle = 2 * math.pi * frequency / SAMPLE_RATE
    return math.cos(angle), math.sin(angle) / (2 * quality)


def _normal(b: list[float], a: list[float]) -> tuple[Array, Array]:
    return np.array(b) / a[0], np.array(a) / a[0]
