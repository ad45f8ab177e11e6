"""The memory of tensors, with every access checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .formats import UNSIGNED, Values
from .program import PtxError

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


class TensorMemory:
    """The ranges of addresses that a launch may access."""

    def __init__(self) -> None:
        self._ranges: dict[int, Bytes] = {}
        self._bases: Places = np.zeros(0, np.int64)
        self._ends: Places = np.zeros(0, np.int64)

    def add(self, base: int, content: Bytes) -> None:
        """Allow the addresses from ``base`` on, which hold ``content``."""
        known = self._ranges.get(base)
        if content.nbytes and (known is None or known.nbytes < content.nbytes):
            self._ranges[base] = content
            self._bases = np.array(sorted(self._ranges), dtype=np.int64)
            sizes = [self._ranges[int(base)].nbytes for base in self._bases]
            self._ends = self._bases + np.array(sizes, dtype=np.int64)

    def check(self, addresses: Places, size: int, text: str) -> NDArray[np.intp]:
        """Return the range of each access of ``size`` bytes.

        Raises:
            PtxError: an access is in no range, or misaligned.
        """
        at = np.searchsorted(self._bases, addresses, side="right") - 1
        outside = (at < 0) | (addresses + size > self._ends[np.maximum(at, 0)])
        if outside.any():
            first = int(addresses[outside][0])
            raise PtxError(f"out of bounds in {outside.sum()} threads, at {first:#x}: {text}")
        if (addresses % size).any():
            raise PtxError(f"misaligned by {size} bytes: {text}")
        return at

    def parts(self, addresses: Places) -> Iterator[tuple[int, int, Places]]:
        """Yield the beginning and the bytes of each range, and the offsets of addresses in it.

        Every address must be in a range.
        """
        at = np.searchsorted(self._bases, addresses, side="right") - 1
        for index in np.unique(at):
            base = int(self._bases[index])
            yield base, self._ranges[base].nbytes, addresses[at == index] - base

    def load(self, addresses: Places, size: int, text: str) -> Values:
        """Return the raw numbers of ``size`` bytes at addresses."""
        at = self.check(addresses, size, text)
        found = np.empty(len(addresses), UNSIGNED[8 * size])
        for index in np.unique(at):
            own = at == index
            base = int(self._bases[index])
            found[own] = gather(self._ranges[base], addresses[own] - base, size)
        return found

    def store(self, addresses: Places, size: int, values: Values, text: str) -> None:
        """Write raw numbers of ``size`` bytes at addresses; of equal ones the last wins."""
        at = self.check(addresses, size, text)
        for index in np.unique(at):
            own = at == index
            base = int(self._bases[index])
            scatter(self._ranges[base], addresses[own] - base, values[own])


def gather(memory: Bytes, offsets: Places, size: int) -> Values:
    """Return the raw numbers of ``size`` bytes at offsets of a memory."""
    found = memory[offsets[:, None] + np.arange(size)]
    numbers: Values = np.ascontiguousarray(found).view(UNSIGNED[8 * size])[:, 0]
    return numbers


def scatter(memory: Bytes, offsets: Places, values: Values) -> None:
    """Write raw numbers at offsets of a memory."""
    size = values.dtype.itemsize
    parts = np.ascontiguousarray(values).view(np.uint8).reshape(len(offsets), size)
    memory[offsets[:, None] + np.arange(size)] = parts
