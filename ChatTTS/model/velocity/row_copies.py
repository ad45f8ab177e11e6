"""Rows of a step's results for each of many sequences, copied with the interpreter's lock held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


class RowCopies:
    """Copies rows of a matrix, each in one go that gives no lock away.

    An operator of torch or NumPy gives the interpreter's lock back while it copies a row, and then
    waits for it behind all other threads. With a row for each of 256 streams, these waits took
    three fifths of the engine's time.

    Args:
        matrix: [n, width], on the CPU.
    """

    def __init__(self, matrix: Tensor) -> None:
        # NumPy has no bfloat16, so its rows are moved as whole numbers.
        self._dtype = torch.bfloat16 if matrix.dtype is torch.bfloat16 else None
        values = (matrix if self._dtype is None else matrix.view(torch.int16)).contiguous().numpy()
        self._moved, self._width = values.dtype, values.shape[1] * values.itemsize
        self._bytes = values.reshape(-1).view(np.uint8).data

    def of(self, rows: Sequence[int]) -> Tensor:
        """Return a copy of some rows, at least one; a caller that keeps it keeps no others."""
        width, given = self._width, self._bytes
        if len(rows) == 1:  # the usual case where a plan is one step
            copies = bytearray(given[rows[0] * width : (rows[0] + 1) * width])
        else:  # joined at once: bytes that grow are moved again and again
            copies = bytearray().join([given[row * width : (row + 1) * width] for row in rows])
        values = torch.from_numpy(np.frombuffer(copies, dtype=self._moved).reshape(len(rows), -1))
        return values if self._dtype is None else values.view(self._dtype)
