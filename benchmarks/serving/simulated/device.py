"""A device in real time: work takes as long as on a GPU, and no processor computes meanwhile.

The end of each piece of work is computed when it is launched. A thread that waits asks for it as
CUDA's events are asked: in Python, or in C without the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray


class Counters:
    """What a device did, counted in memory or in a file that another process reads.

    These are seconds of work (``busy``), steps, the frames that they drew, launches of the audio
    decoder, and how often the host waited.

    Args:
        values: a number for each name.
    """

    NAMES = ("busy", "steps", "frames", "decodes", "waits")

    def __init__(self, values: NDArray[np.float64] | None = None) -> None:
        self._values = np.zeros(len(self.NAMES)) if values is None else values

    @classmethod
    def in_file(cls, file: Path, mode: Literal["w+", "r"]) -> Counters:
        """Return those of a file: ``w+`` makes it, to count, and ``r`` reads what was counted."""
        return cls(np.memmap(file, dtype=np.float64, mode=mode, shape=(len(cls.NAMES),)))

    def add(self, name: str, amount: float = 1.0) -> None:
        """Count ``amount`` more; one thread at a time may count a name."""
        self._values[self.NAMES.index(name)] += amount

    def __getitem__(self, name: str) -> float:
        return float(self._values[self.NAMES.index(name)])


class SimulatedEvent:
    """A point in a stream of work, which is asked as ``torch.cuda.Event`` is.

    Args:
        done_at: when the work before it is done, by ``clock``.
        clock: returns seconds.
    """

    def __init__(self, done_at: float, clock: Callable[[], float]) -> None:
        self._done_at, self._clock = ctypes.c_double(done_at), clock

    @property
    def cuda_event(self) -> int:
        """Its handle, for :func:`event_query`."""
        return ctypes.addressof(self._done_at)

    def query(self) -> bool:
        """Return whether all work before it is done."""
        return self._clock() >= self._done_at.value


class SimulatedDevice:
    """Does the work of all its streams in the order in which it is launched.

    A GPU would do work of several streams side by side where it has room, so this one is a little
    slower. Any thread may use it.

    Args:
        counters: count what it does; seconds as soon as work is launched.
        clock: returns seconds.
    """

    def __init__(
        self, counters: Counters | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counters, self.clock = counters or Counters(), clock
        self._free_at = 0.0
        self._lock = threading.Lock()

    def launch(self, seconds: float) -> float:
        """Give it work that takes ``seconds``; return when that will be done, by the clock."""
        with self._lock:
            self._free_at = max(self._free_at, self.clock()) + seconds
            self.counters.add("busy", seconds)
            return self._free_at


class SimulatedStream:
    """Work of one kind on a device, as a stream of CUDA; one thread at a time uses it."""

    def __init__(self, device: SimulatedDevice) -> None:
        self._device, self._done_at = device, 0.0
        self.counters = device.counters

    def launch(self, seconds: float) -> None:
        """Give the device work that takes ``seconds``; do not wait for it."""
        self._done_at = self._device.launch(seconds)

    def record_event(self) -> SimulatedEvent:
        """Return an event behind the work that this stream was given up to now."""
        return SimulatedEvent(self._done_at, self._device.clock)


def event_query() -> Callable[..., int]:
    """Return the function of C that asks an event: 1 while its work lasts, 0 afterwards.

    It reads the system's monotonic clock.

    Raises:
        CalledProcessError, OSError: it cannot be compiled, with ``CXX`` or g++.
    """
    source = Path(__file__).with_name("event.cpp")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "event.so"
        compiler = shlex.split(os.environ.get("CXX", "g++"))
        command = [*compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(path)]
        subprocess.run(command, check=True)
        query: Callable[..., int] = ctypes.CDLL(str(path)).simulated_event_query
    return query
