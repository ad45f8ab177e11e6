"""Change the sample rate of samples that come piece by piece."""

from __future__ import annotations

import numpy as np
import soxr

from ...audio.samples import Samples

_NOTHING: Samples = np.zeros(0, dtype=np.float32)


class Resampler:
    """Resamples by soxr's HQ filter.

    The joined results equal soxr's result for the whole waveform, however it was cut. The filter
    looks ahead, so samples come out about 40 to 75 ms after they were pushed.

    Args:
        source_rate, target_rate: samples a second.
    """

    def __init__(self, source_rate: int, target_rate: int) -> None:
        self._stream = soxr.ResampleStream(source_rate, target_rate, 1, "float32", "HQ")

    def push(self, samples: Samples) -> Samples:
        """Take ``samples`` (n,) and return those that are ready: float32 (m,), m may be 0."""
        return self._run(samples, last=False)

    def finish(self) -> Samples:
        """Return the remaining samples: float32 (m,)."""
        return self._run(_NOTHING, last=True)

    def _run(self, samples: Samples, *, last: bool) -> Samples:
        resampled: Samples = self._stream.resample_chunk(samples, last=last)
        return resampled
