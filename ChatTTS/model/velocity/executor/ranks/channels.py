"""Channels from an engine to its ranks, wherever they run."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence

from .....errors import EngineDeadError

FORKED = (
    "ranks belong to the process that started them, and this is a fork of it: load the model in "
    "this process"
)


# Seconds between signs of life.
BEAT_SECONDS = 0.25
# Beats of this process in a row without one of a rank, after which that rank is lost. This process
# counts its beats, since a busy machine slows down both.
BEATS = 7
# Further beats until the first one: ten minutes, as torch may come from a slow file system.
START_BEATS = 2400


class RankLostError(EngineDeadError):
    """A rank ended or does not answer any more."""


class RankChannel(ABC):
    """The way to one rank."""

    @abstractmethod
    def send(self, message: bytes) -> None:
        """Give the rank a message; it answers each message, in order.

        Raises:
            RankLostError: the rank is lost.
        """

    @abstractmethod
    def receive(self) -> bytes:
        """Wait for the reply to the oldest message that has none.

        Raises:
            RankLostError: the rank is lost, or another rank of this engine.
        """


class RankGroup(ABC):
    """All ranks of an engine.

    Attributes:
        channels: one for each rank.
        address, port: of the store where the ranks find one another.
        devices: of the ranks.
        threads: of each rank.
        user: what uses the ranks, once it is known. Processes end when it is dropped.
    """

    channels: Sequence[RankChannel]
    address: str
    port: int
    user: weakref.ref[object] | None = None

    def __init__(self, devices: Sequence[str], threads: int) -> None:
        self.devices, self.threads = devices, threads
        self._owner = os.getpid()
        self._lost: str | None = None
        self._store: object = None

    def check(self) -> None:
        """Raise RankLostError if a rank was lost, or if this process is a fork."""
        if os.getpid() != self._owner:
            raise RankLostError(FORKED)
        if self._lost is not None:
            raise RankLostError(self._lost)

    @abstractmethod
    def close(self) -> None:
        """End all ranks, and leave nothing behind. May be called twice."""
