"""Make speech faster or slower at the same pitch."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ..config.request_fields import FASTEST, SLOWEST
from ..errors import AudioError
from .samples import Samples

if TYPE_CHECKING:
    import av.filter

# Below this range atempo refuses; above it, atempo skips samples instead of joining fragments.
_SLOWEST_FILTER, _FASTEST_FILTER = 0.5, 2.0
_BLOCK_SECONDS = 0.02


def check_speed(speed: float) -> float:
    """Return ``speed`` as a float.

    Raises:
        AudioError: it is not a number from 0.25 to 4.
    """
    if isinstance(speed, bool) or not isinstance(speed, int | float | np.number):
        raise AudioError(f"speed must be a number from {SLOWEST} to {FASTEST}, not {speed!r}")
    if not SLOWEST <= speed <= FASTEST:  # also false for NaN
        raise AudioError(f"speed must be from {SLOWEST} to {FASTEST}, not {speed}")
    return float(speed)


def check_tempo() -> None:
    """Raise AudioError where PyAV, whose filter :class:`Tempo` is, is not installed."""
    try:
        import av.filter  # noqa: F401
    except ImportError as error:
        raise AudioError(
            "a change of the tempo needs PyAV: pip install 'chattts-velocity[longform]'"
        ) from error


class Tempo:
    """Turns ``n`` samples into ``round(n / speed)``, by ffmpeg's ``atempo``.

    The joined results do not depend on how the samples were cut. The filter compares fragments, so
    samples come out 60 to 80 ms after they were pushed, or up to 200 ms at a speed above 2.

    Args:
        speed: from 0.25 to 4; 2 is twice as fast.
        sample_rate: samples a second.
    """

    def __init__(self, speed: float, sample_rate: int) -> None:
        self._speed = check_speed(speed)
        self._rate = sample_rate
        # The output of atempo depends on the sizes of its frames, so all frames have this size.
        self._block = round(_BLOCK_SECONDS * sample_rate)
        self._graph = _graph(self._speed, sample_rate)
        self._waiting: Samples = np.zeros(0, dtype=np.float32)  # less than a block
        self._samples_in = 0
        self._samples_out = 0
        self._blocks = 0

    def push(self, samples: Samples) -> Samples:
        """Take ``samples`` (n,) and return those that are ready: float32 (m,), m may be 0."""
        self._samples_in += len(samples)
        waiting = np.concatenate([self._waiting, samples])
        whole = len(waiting) - len(waiting) % self._block
        self._waiting = waiting[whole:]
        return self._filter(waiting[:whole])

    def finish(self) -> Samples:
        """Return the remaining samples: float32 (m,)."""
        # The filter lags behind its input, and at its end drops an incomplete fragment. Silence
        # after the speech pushes the speech through.
        missing = round(self._samples_in / self._speed) - self._samples_out
        block = np.zeros(self._block, dtype=np.float32)
        block[: len(self._waiting)] = self._waiting
        rest: Samples = np.zeros(0, dtype=np.float32)
        while len(rest) < missing:
            rest = np.concatenate([rest, self._filter(block)])
            block = np.zeros_like(block)
        return rest[:missing]

    def _filter(self, samples: Samples) -> Samples:
        """Filter whole blocks and return the samples that are ready."""
        import av

        out: list[Samples] = []
        for block in samples.reshape(-1, 1, self._block):
            frame = av.AudioFrame.from_ndarray(block, format="flt", layout="mono")
            frame.sample_rate = self._rate
            frame.time_base = Fraction(1, self._rate)
            frame.pts = self._blocks * self._block
            self._blocks += 1
            self._graph.push(frame)
            out += _pulled(self._graph)
        joined: Samples = np.concatenate(out) if out else np.zeros(0, dtype=np.float32)
        self._samples_out += len(joined)
        return joined


def _graph(speed: float, sample_rate: int) -> av.filter.Graph:
    """Return filters that change the tempo: two if the speed is out of the range of one."""
    import av.filter

    fits = _SLOWEST_FILTER <= speed <= _FASTEST_FILTER
    tempos = [speed] if fits else [math.sqrt(speed)] * 2
    graph = av.filter.Graph()
    filters = [
        graph.add_abuffer(sample_rate=sample_rate, format="flt", layout="mono"),
        *(graph.add("atempo", tempo=repr(tempo)) for tempo in tempos),
        graph.add("abuffersink"),
    ]
    graph.link_nodes(*filters).configure()
    return graph


def _pulled(graph: av.filter.Graph) -> list[Samples]:
    """Return the samples that the filters have ready."""
    import av

    out: list[Samples] = []
    while True:
        try:
            frame = graph.pull()
        except av.BlockingIOError:  # the filters wait for more samples
            return out
        assert isinstance(frame, av.AudioFrame)
        out.append(frame.to_ndarray()[0])
