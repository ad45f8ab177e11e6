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
    """Finds accesses to the tensors that nothing orders: of two programs, or of two warps."""

    def __init__(self) -> None:
        self._writes: list[tuple[Places, ...]] = []
        self._reads: list[tuple[Places, ...]] = []

    def reads(self, addresses: Places, size: int, *by: Places) -> None:
        """Note that threads read ``size`` bytes at addresses.

        Args:
            by: of each thread the program, the warp, the epoch and the time; an epoch ends at a
                barrier.
        """
        self._reads += [(addresses + at, *by) for at in range(0, size, min(size, _GRAIN))]

    def writes(self, addresses: Places, size: int, *by: Places) -> None:
        """Note that threads write ``size`` bytes at addresses; see :meth:`reads`."""
        self._writes += [(addresses + at, *by) for at in range(0, size, min(size, _GRAIN))]

    def races(self) -> set[str]:
        """Return a line for each kind of race."""
        if not self._writes:
            return set()
        found = set()
        addresses, programs, warps, epochs, times = _together(self._writes)
        order = np.argsort(addresses, kind="stable")
        addresses, programs = addresses[order], programs[order]
        warps, epochs, times = warps[order], epochs[order], times[order]
        if ((addresses[1:] == addresses[:-1]) & (programs[1:] != programs[:-1])).any():
            found.add("two programs write one address")
        if self._reads:
            read, readers, reading, read_epochs, read_times = _together(self._reads)
            # A read may meet several writes: the first one of its address, the second, and so on.
            at = np.searchsorted(addresses, read)
            end = np.searchsorted(addresses, read, side="right")
            while len(own := np.flatnonzero(at < end)):
                at, end, read_times = at[own], end[own], read_times[own]
                readers, reading, read_epochs = readers[own], reading[own], read_epochs[own]
                if (programs[at] != readers).any():
                    found.add("a program reads what another program writes")
                near = (programs[at] == readers) & (epochs[at] == read_epochs)
                near &= warps[at] != reading
                if (near & (times[at] < read_times)).any():
                    found.add("reads what another warp wrote into a tensor, without a barrier")
                if (near & (times[at] > read_times)).any():
                    found.add("writes what another warp read from a tensor, without a barrier")
                at = at + 1
        return found


def _places(offsets: Places, size: int) -> list[Places]:
    return [(offsets + at) // _GRAIN for at in range(0, max(size, _GRAIN), _GRAIN)]


def _together(notes: list[tuple[Places, ...]]) -> tuple[Places, ...]:
    return tuple(map(np.concatenate, zip(*notes, strict=True)))
