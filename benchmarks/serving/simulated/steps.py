"""The time that a GPU takes for each piece of work, as it was measured on one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class StepTimes:
    """The times of a model on a GPU. Between the sizes that were measured they are linear.

    Attributes:
        frames, texts: milliseconds of a step that draws frames, or text ids, by its rows.
        prompts: milliseconds of a step that reads prompts, by its rows.
        write: milliseconds of a change of the sequences' rows.
        launch: milliseconds of a launch of the audio decoder that has little to do.
        decoded: further milliseconds for each frame in it.
    """

    frames: Mapping[int, float]
    texts: Mapping[int, float]
    prompts: Mapping[int, float]
    write: float
    launch: float
    decoded: float

    def step_seconds(self, rows: int, *, is_text: bool = False) -> float:
        """Return the seconds of a step of ``rows`` sequences."""
        return _between(self.texts if is_text else self.frames, rows)

    def prompt_seconds(self, rows: int) -> float:
        """Return the seconds that ``rows`` positions of prompts take."""
        return _between(self.prompts, rows)

    def write_seconds(self) -> float:
        """Return the seconds of a write of rows."""
        return self.write / 1e3

    def decode_seconds(self, frames: int) -> float:
        """Return the seconds of a launch of the audio decoder with room for ``frames``."""
        return (self.launch + self.decoded * frames) / 1e3


def _between(times: Mapping[int, float], size: int) -> float:
    """Return the seconds of a size; above the largest one, they grow as the size does."""
    sizes = list(times)
    more = max(1.0, size / sizes[-1])
    return more * float(np.interp(size, sizes, list(times.values()))) / 1e3


# Steps and prompts: medians of `benchmarks/gpu.sh` on an NVIDIA H100 80GB HBM3, 27 November 2026
# (steps with 500 positions of each sequence). A write of rows and a launch of the decoder were not
# timed by themselves. The launch is the 141 kernels of both its networks at 3.6 us from one to the
# next (`gpu/step_model.py`), and 0.15 ms for the longest sums of their 20 blocks, which few
# programs share where there are few rows. A frame is its products at a third, and its rows at two
# thirds, of the rate that the GPU has.
H100 = StepTimes(
    frames={1: 0.516, 4: 0.565, 8: 0.638, 16: 0.789, 64: 1.661, 256: 4.544},
    texts={1: 0.988, 8: 1.240, 16: 1.426, 64: 2.502, 256: 7.901},
    prompts={50: 1.20, 500: 4.17, 2000: 27.5},
    write=0.03,
    launch=0.65,
    decoded=0.002,
)
