"""Launches that overlap: what one does before its wait, against the launches that may still run.

A launch with ``launch_pdl`` may begin once each program of the previous launch has asked for that
or has ended, and the previous launch may itself have begun so. Its ``griddepcontrol.wait`` returns
when the previous launch is done, and so are then all earlier ones. Before it, every launch since
the last one without overlap may still run, and that one may as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .memory import Places, TensorMemory

_GRAIN = 2  # bytes that are watched as one


class Touched:
    """Places in tensors that were accessed."""

    def __init__(self) -> None:
        self._marks: dict[int, NDArray[np.bool_]] = {}

    def __bool__(self) -> bool:
        return bool(self._marks)

    def add(self, memory: TensorMemory, addresses: Places, size: int) -> None:
        """Note accesses of ``size`` bytes, all of them within the memory."""
        grains = np.arange(-(-size // _GRAIN))
        for base, extent, offsets in memory.parts(addresses):
            if base not in self._marks:
                self._marks[base] = np.zeros(extent // _GRAIN + 1, np.bool_)
            self._marks[base][offsets[:, None] // _GRAIN + grains] = True

    def meets(self, other: Touched) -> bool:
        """Return whether any place is in both."""
        return any(
            bool(other._marks[base][np.flatnonzero(own)].any())
            for base, own in self._marks.items()
            if base in other._marks
        )


class LaunchAccesses:
    """What a launch reads and writes, before its wait and behind it.

    Args:
        memory: what the launch may access. It is kept, so that no later tensor has its addresses.
        threads: of all programs together.
        overlaps: whether the launch may begin before the previous one is done.
    """

    def __init__(self, memory: TensorMemory, threads: int, *, overlaps: bool) -> None:
        self.overlaps = overlaps
        self.early_reads, self.early_writes = Touched(), Touched()
        self.reads, self.writes = Touched(), Touched()
        self._memory = memory
        self._waited = np.full(threads, not overlaps)

    @property
    def all_waited(self) -> bool:
        """Whether every thread has waited for the previous launch."""
        return bool(self._waited.all())

    def wait(self, threads: Places) -> None:
        """Note that threads wait until the previous launch is done."""
        self._waited[threads] = True

    def note(self, access: str, addresses: Places, size: int, threads: Places) -> None:
        """Note an access: ``reads`` or ``writes``."""
        whole, before = self.reads, self.early_reads
        if access == "writes":
            whole, before = self.writes, self.early_writes
        whole.add(self._memory, addresses, size)
        early = ~self._waited[threads]
        if early.any():
            before.add(self._memory, addresses[early], size)


class LaunchOrder:
    """The launches that may run at a time, in their order.

    What torch computes between launches counts as nothing, so a real device orders more than this.
    """

    def __init__(self) -> None:
        self._running: list[tuple[str, LaunchAccesses]] = []

    def synchronize(self) -> None:
        """Let all launches end."""
        self._running.clear()

    def add(self, name: str, launch: LaunchAccesses) -> set[str]:
        """Add a launch; return a line for each way in which it meets others."""
        if not launch.overlaps:
            self._running.clear()
        found = set()
        if not launch.all_waited:
            found.add("threads end without a wait for the previous launch")
        for other, accesses in self._running:
            if launch.early_reads.meets(accesses.writes):
                found.add(f"reads before its wait what {other} writes")
            if launch.early_writes.meets(accesses.writes):
                found.add(f"writes before its wait what {other} writes")
            if launch.early_writes.meets(accesses.reads):
                found.add(f"writes before its wait what {other} reads")
        if launch.early_writes:
            # On a device, even new memory may be that of a tensor which an earlier launch reads.
            found.add("writes before its wait")
        self._running.append((name, launch))
        return found
