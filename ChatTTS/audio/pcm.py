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
    return _scaled(to_float(samples, "samples")).astype(np.int16)


def pcm_bytes(samples: Samples) -> bytes:
    """Return finite float32 samples as little-endian signed 16-bit bytes (``s16le``).

    See ``to_int16`` for the values.
    """
    return _scaled(samples).astype("<i2").tobytes()


def _scaled(samples: Samples) -> Samples:
    """Return whole numbers of 16 bits; one array is made, in which all is computed."""
    scaled = np.empty_like(samples)
    np.multiply(samples, np.float32(_FULL_SCALE), out=scaled)
    np.rint(scaled, out=scaled)
    np.maximum(scaled, np.float32(-_FULL_SCALE), out=scaled)
    np.minimum(scaled, np.float32(_FULL_SCALE - 1), out=scaled)
    return scaled


def count_clipped(samples: Samples) -> int:
    """Return how many samples are beyond [-1, 1]."""
    if not samples.size or max(samples.max(), -samples.min()) <= 1.0:  # nearly always
        return 0
    return int(np.count_nonzero(np.abs(samples) > 1.0))
