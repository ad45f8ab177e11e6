"""Convert float samples to 16-bit PCM, for files and streams."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .samples import Samples, to_float

_FULL_SCALE = 32768.0


def to_int16(samples: Any) -> NDArray[np.int16]:
    """Return ``samples`` as 16-bit values of equal shape, rounded and clipped at full scale.

    A sample becomes ``round(32768 * x)``, so int16 data read as float and written again is
    unchanged. 1.0 becomes 32767, and values beyond [-1, 1] are clipped, never wrapped around.

    Raises:
        AudioError: the samples have NaN or infinity, or are no numbers.
    """
    scaled = np.rint(to_float(samples, "samples") * _FULL_SCALE)
    values: NDArray[np.int16] = np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype(np.int16)
    return values


def to_pcm_bytes(samples: Any) -> bytes:
    """Return ``samples`` as little-endian signed 16-bit bytes (``s16le``); see ``to_int16``."""
    return to_int16(samples).astype("<i2").tobytes()


def count_clipped(samples: Samples) -> int:
    """Return how many samples are beyond [-1, 1]."""
    return int(np.count_nonzero(np.abs(samples) > 1.0))
