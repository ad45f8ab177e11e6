"""The recorded steps of a part, by their numbers of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....cuda.graphs import Recording


@dataclass(frozen=True)
class RecordedStep:
    """A recording, and how many rows it has room for."""

    rows: int
    recording: Recording[None]


class RecordedSteps:
    """Recordings for some numbers of rows; a larger one stands for each that is not made yet.

    Padding changes no bit of a row, so a larger step gives the same results. One thread may add
    recordings while another one looks them up.

    Args:
        sizes: numbers of rows, ascending.

    Attributes:
        taken: what a step of each size takes, with adapters or without.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self.taken: dict[tuple[int, bool], RecordedStep] = {}

    def add(self, rows: int, adapted: bool, recording: Recording[None]) -> None:
        """Add a recording of one of the sizes."""
        added = RecordedStep(rows, recording)
        for size in self._sizes:
            known = self.taken.get((size, adapted))
            if size <= rows and (known is None or rows <= known.rows):
                self.taken[size, adapted] = added
