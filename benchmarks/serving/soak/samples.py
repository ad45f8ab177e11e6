"""Samples of all servers over time, and the gaps between them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .servers import SoakServer
from .tally import Tally
from .watch import Holding, holding

_GAP = 10.0
_TICK = 1.0


@dataclass(frozen=True)
class Sample:
    """The resources that the servers hold at a moment.

    Attributes:
        at: seconds since the start of the soak.
        holdings: of each process, by its role.
        gauges: of the metrics of each server.
        temporary: numbers of temporary files of each server.
    """

    at: float
    holdings: Mapping[str, Holding]
    gauges: Mapping[str, Mapping[str, float]]
    temporary: Mapping[str, int]

    def told(self) -> dict[str, Any]:
        """Return it for the report; processes beside a server together."""
        found: dict[str, Any] = {}
        for role, held in self.holdings.items():
            if not role.startswith("beside "):
                found[role] = asdict(held)
                continue
            name = role.rpartition(" ")[0]
            before = found.setdefault(name, {"rss": 0.0, "pss": 0.0, "uss": 0.0, "processes": 0})
            for what in ("rss", "pss", "uss"):
                before[what] += getattr(held, what)
            before["processes"] += 1
        return {
            "at": round(self.at, 1),
            "processes": found,
            "gauges": {name: dict(each) for name, each in self.gauges.items()},
            "temporary": dict(self.temporary),
        }


@dataclass
class Watch:
    """Takes samples of servers.

    Attributes:
        servers: by name.
        tally: learns of gaps.
        clock: returns the seconds since the start of the soak.
        samples: all that were taken, in order.
    """

    servers: Mapping[str, SoakServer]
    tally: Tally
    clock: Callable[[], float]
    samples: list[Sample] = field(default_factory=list)

    async def take(self) -> Sample:
        """Return a sample of now."""
        holdings: dict[str, Holding] = {}
        temporary = {}
        for name, server in self.servers.items():
            holdings.update(await asyncio.to_thread(server.holdings))
            temporary[name] = len(await asyncio.to_thread(server.temporary_files))
        if (own := holding(os.getpid())) is not None:
            holdings["this program"] = own
        gauges = {name: await server.gauges() for name, server in self.servers.items()}
        return Sample(self.clock(), holdings, gauges, temporary)

    async def take_samples(self, every: float, is_over: Callable[[], bool]) -> None:
        """Take a sample every so many seconds, until it is over."""
        due = self.clock()
        while not is_over():
            if self.clock() >= due:
                self.samples.append(await self.take())
                due = self.clock() + every
            await asyncio.sleep(_TICK)

    async def notice_gaps(self) -> None:
        """Note when this process did not run for over 10 s, until this task is cancelled.

        Both are told by the clock: a process that is stopped and continued, and a machine that
        slept or was far too busy.
        """
        before = time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            if now - before > _GAP + _TICK:
                at = self.clock()
                self.tally.gaps.append((at - (now - before), at))
            before = now

    async def quiet(self, seconds: float) -> Sample:
        """Wait until nothing is spoken anywhere, at most so long; return a sample of then."""
        until = time.monotonic() + seconds
        while True:
            gauges = [await server.gauges() for server in self.servers.values()]
            if not any(busy(each) for each in gauges) or time.monotonic() > until:
                return await self.take()
            await asyncio.sleep(_TICK)


def busy(gauges: Mapping[str, float]) -> dict[str, float]:
    """Return the gauges that tell that a server has something left to do."""
    at_rest = ("chattts_connections", "chattts_engines")
    return {name: value for name, value in gauges.items() if value and name not in at_rest}
