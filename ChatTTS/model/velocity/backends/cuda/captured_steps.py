"""The captured steps of a part, by their numbers of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....cuda.graphs import CapturedGraph


@dataclass(frozen=True)
class CapturedStep:
    """A graph, and how many rows it has room for."""

    rows: int
    graph: CapturedGraph[None]


class CapturedSteps:
    """Graphs for some numbers of rows; a larger one stands for each that is not made yet.

    Padding changes no bit of a row, so a larger step gives the same results. One thread may add
    graphs while another one looks them up.

    Args:
        sizes: numbers of rows, ascending.

    Attributes:
        taken: what a step of each size takes, with adapters or without.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self.taken: dict[tuple[int, bool], CapturedStep] = {}

    def add(self, rows: int, adapted: bool, graph: CapturedGraph[None]) -> None:
        """Add a graph of one of the sizes."""
        added = CapturedStep(rows, graph)
        for size in self._sizes:
            known = self.taken.get((size, adapted))
            if size <= rows and (known is None or rows <= known.rows):
                self.taken[size, adapted] = added
