"""Ends of requests: counts, faults, and the gaps in which the whole machine stood still."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_MOST_TOLD = 200
_AFTER_GAP = 60.0
"""Seconds after a gap in which requests may still fail because of it."""


@dataclass(frozen=True)
class Fault:
    """A request that did not end as it should.

    Attributes:
        kind: ``failed``, ``different``, or what else went wrong.
        server: that was asked.
        request: all that repeats it.
        conduct: of the client.
        said: the error, or how the bytes differ.
        began, ended: seconds since the start of the load.
    """

    kind: str
    server: str
    request: str
    conduct: str
    said: str
    began: float
    ended: float


@dataclass
class Tally:
    """Counts of all requests.

    Attributes:
        ends: by server, way and kind of end.
        faults: what went wrong, in order.
        gaps: beginnings and ends of times in which this process did not run.
        events: counts of what was done to the servers.
    """

    ends: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)

    def count(self, server: str, way: str, end: str) -> None:
        """Count a request that ended well, was refused, or whose client left."""
        self.ends[server, way, end] += 1

    def fault(self, way: str, fault: Fault) -> None:
        """Count a request that ended badly."""
        self.ends[fault.server, way, fault.kind] += 1
        self.faults.append(fault)

    def is_excused(self, fault: Fault) -> bool:
        """Return whether a gap explains a fault; no gap explains a byte that differs."""
        return fault.kind != "different" and any(
            fault.began < end + _AFTER_GAP and begin < fault.ended for begin, end in self.gaps
        )

    @property
    def unexcused(self) -> list[Fault]:
        """The faults that no gap explains."""
        return [fault for fault in self.faults if not self.is_excused(fault)]

    @property
    def stood_still(self) -> float:
        """Seconds of all gaps together."""
        return sum(end - begin for begin, end in self.gaps)

    def told(self) -> dict[str, Any]:
        """Return the part of the report about requests."""
        ways: dict[str, Counter[str]] = {}
        servers: dict[str, Counter[str]] = {}
        for (server, way, end), count in sorted(self.ends.items()):
            ways.setdefault(way, Counter())[end] += count
            servers.setdefault(server, Counter())[end] += count
        unexcused = self.unexcused
        return {
            "requests": sum(self.ends.values()),
            "different": sum(fault.kind == "different" for fault in self.faults),
            "faults": len(unexcused),
            "faults_in_gaps": len(self.faults) - len(unexcused),
            "by_way": {way: dict(counts) for way, counts in ways.items()},
            "by_server": {server: dict(counts) for server, counts in servers.items()},
            "events": dict(self.events),
            "gaps": [list(gap) for gap in self.gaps],
            "first_faults": [asdict(fault) for fault in unexcused[:_MOST_TOLD]],
        }


def difference(right: bytes, heard: bytes, is_whole: bool) -> str | None:
    """Return how an answer differs from the right one; ``None`` if it does not.

    Args:
        is_whole: whether the answer has to be whole; otherwise it may end early.
    """
    if heard == right or (not is_whole and right.startswith(heard)):
        return None
    pairs = enumerate(zip(right, heard, strict=False))
    at = next((number for number, (a, b) in pairs if a != b), min(len(right), len(heard)))
    return f"{len(heard)} bytes in place of {len(right)}; byte {at} is the first that differs"


def total(told: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """Return the counts of all ways or servers together."""
    counts: Counter[str] = Counter()
    for each in told.values():
        counts.update(each)
    return counts
