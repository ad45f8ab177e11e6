"""Races: accesses of two warps, or of two programs, with nothing that orders them."""

from __future__ import annotations

import numpy as np

from .formats import Values
from .memory import Places

_NONE, _SEVERAL = -1, -2
_GRAIN = 2  # bytes that are watched as one


class SharedMemoryWatch:
    """Finds accesses of two warps to one place of shared memory without a barrier between them.

    Args:
        size: bytes of shared memory, of all programs together.
        found: gets a line for each kind of race.
    """

    def __init__(self, size: int, found: set[str]) -> None:
        places = size // _GRAIN
        self._found = found
        # The warp and the epoch of the last access; an epoch ends at a barrier.
        self._writer = np.full(places, _NONE, np.int32)
        self._written = np.full(places, _NONE, np.int32)
        self._reader = np.full(places, _NONE, np.int32)
        self._read = np.full(places, _NONE, np.int32)

    def reads(self, offsets: Places, size: int, warps: Values, epochs: Values, text: str) -> None:
        """Note that warps read ``size`` bytes at offsets."""
        for place in _places(offsets, size):
            if (self._meets(self._written, self._writer, place, warps, epochs)).any():
                self._found.add(f"reads what another warp wrote, without a barrier: {text}")
            other = (self._read[place] == epochs) & (self._reader[place] != warps)
            self._reader[place] = np.where(other, _SEVERAL, warps)
            self._read[place] = epochs

    def writes(self, offsets: Places, size: int, warps: Values, epochs: Values, text: str) -> None:
        """Note that warps write ``size`` bytes at offsets."""
        for place in _places(offsets, size):
            if (self._meets(self._read, self._reader, place, warps, epochs)).any():
                self._found.add(f"writes what another warp reads, without a barrier: {text}")
            if (self._meets(self._written, self._writer, place, warps, epochs)).any():
                self._found.add(f"writes what another warp wrote, without a barrier: {text}")
            self._writer[place] = warps
            self._written[place] = epochs

    @staticmethod
    def _meets(epoch: Values, warp: Values, place: Places, warps: Values, epochs: Values) -> Values:
        met: Values = (epoch[place] == epochs) & (warp[place] != warps) & (warp[place] != _NONE)
        return met


class GlobalMemoryWatch:
    """Finds addresses that one program writes and another one accesses."""

    def __init__(self) -> None:
        self._writes: list[tuple[Places, Places]] = []
        self._reads: list[tuple[Places, Places]] = []

    def reads(self, addresses: Places, size: int, programs: Places) -> None:
        """Note that programs read ``size`` bytes at addresses."""
        self._reads += [(addresses + at, programs) for at in range(0, size, min(size, _GRAIN))]

    def writes(self, addresses: Places, size: int, programs: Places) -> None:
        """Note that programs write ``size`` bytes at addresses."""
        self._writes += [(addresses + at, programs) for at in range(0, size, min(size, _GRAIN))]

    def races(self) -> set[str]:
        """Return a line for each kind of race."""
        if not self._writes:
            return set()
        found = set()
        addresses, programs = _together(self._writes)
        order = np.argsort(addresses, kind="stable")
        addresses, programs = addresses[order], programs[order]
        if ((addresses[1:] == addresses[:-1]) & (programs[1:] != programs[:-1])).any():
            found.add("two programs write one address")
        if self._reads:
            read, readers = _together(self._reads)
            at = np.minimum(np.searchsorted(addresses, read), len(addresses) - 1)
            if ((addresses[at] == read) & (programs[at] != readers)).any():
                found.add("a program reads what another program writes")
        return found


def _places(offsets: Places, size: int) -> list[Places]:
    return [(offsets + at) // _GRAIN for at in range(0, max(size, _GRAIN), _GRAIN)]


def _together(notes: list[tuple[Places, Places]]) -> tuple[Places, Places]:
    return np.concatenate([a for a, _ in notes]), np.concatenate([p for _, p in notes])
