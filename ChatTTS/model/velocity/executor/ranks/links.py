"""Links from an engine to its ranks, wherever they run."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence

from .....errors import EngineDeadError

FORKED = (
    "ranks belong to the process that started them, and this is a fork of it: load the model in "
    "this process"
)


class RankLostError(EngineDeadError):
    """A rank ended or does not answer any more."""


class RankLink(ABC):
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
        links: one for each rank.
        address, port: of the store where the ranks find one another.
        devices: of the ranks.
        threads: of each rank.
        user: what uses the ranks, once it is known. Processes end when it is dropped.
    """

    links: Sequence[RankLink]
    address: str
    port: int
    devices: Sequence[str]
    threads: int
    user: weakref.ref[object] | None = None

    @abstractmethod
    def close(self) -> None:
        """End all ranks, and leave nothing behind. May be called twice."""
