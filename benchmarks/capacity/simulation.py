"""Simulate requests that come in bursts to several replicas of an engine.

A replica moves all its running streams forward by one frame in each step, and a step takes longer
the more streams run. So all streams of a replica advance together: each has its first sound, and
ends, after a number of steps that is known when it joins.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np
from numpy.typing import NDArray

FRAMES_PER_SECOND = 46.875


@dataclass(frozen=True)
class Profile:
    """The speed of a replica.

    Attributes:
        streams: numbers of streams whose step was measured, ascending, from 1.
        seconds: time of a step of each, with all that belongs to speech; linear in between, and
            beyond the last one in proportion to the streams.
        first_frames: frames that a stream needs for its first sound.
        first_seconds: time to the first sound beside these steps.
        most: streams that run at a time; further ones wait.
    """

    streams: tuple[int, ...]
    seconds: tuple[float, ...]
    first_frames: int
    first_seconds: float
    most: int

    def step(self, streams: int) -> float:
        """Return the seconds of a step of so many streams."""
        if streams > self.streams[-1]:
            return self.seconds[-1] * streams / self.streams[-1]
        return float(np.interp(streams, self.streams, self.seconds))


@dataclass(frozen=True)
class Load:
    """Requests that come in bursts, at random moments.

    Attributes:
        rate: requests a second, on average.
        burst: how many times as often they come in a burst as otherwise.
        burst_share: share of the time that is in a burst.
        burst_seconds: length of a burst; each of so many seconds divided by the share has one, at a
            random place.
        median_seconds: median of the length of their speech, which has a log-normal distribution.
        spread: standard deviation of the logarithm of that length.
        longest_seconds: the most that a request speaks.
    """

    rate: float
    burst: float = 3.0
    burst_share: float = 0.1
    burst_seconds: float = 10.0
    median_seconds: float = 5.0
    spread: float = 0.8
    longest_seconds: float = 40.0

    def lengths(self, random: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Return the frames of so many requests, (count,), each at least 1."""
        seconds = self.median_seconds * np.exp(self.spread * random.standard_normal(count))
        frames = np.minimum(seconds, self.longest_seconds) * FRAMES_PER_SECOND
        return np.maximum(1, np.rint(frames)).astype(np.int64)

    def mean_seconds(self) -> float:
        """Return the mean length of the speech of a request, by a large sample."""
        frames = self.lengths(np.random.default_rng(0), 200_000)
        return float(frames.mean()) / FRAMES_PER_SECOND

    def moments(self, random: np.random.Generator, seconds: float) -> NDArray[np.float64]:
        """Return the moments, in seconds from 0, at which requests come; ascending."""
        calm = self.rate / (1 + (self.burst - 1) * self.burst_share)
        period = self.burst_seconds / self.burst_share
        parts = []
        for begin in np.arange(0.0, seconds, period):
            burst = begin + random.uniform(0.0, period - self.burst_seconds)
            ends = (begin, burst, burst + self.burst_seconds, begin + period)
            rates = (calm, calm * self.burst, calm)
            for (left, right), rate in zip(pairwise(ends), rates, strict=True):
                count = random.poisson(rate * (right - left))
                parts.append(np.sort(random.uniform(left, right, count)))
        moments = np.concatenate(parts)
        return moments[moments < seconds]


class Replica:
    """An engine with a queue of its own, first come, first served.

    Times are in seconds; the steps that it has made are its other clock.

    Args:
        number: its place in the list of replicas.
        profile: its speed.
    """

    def __init__(self, number: int, profile: Profile) -> None:
        self.number, self._profile = number, profile
        self._table = [0.0, *(profile.step(n) for n in range(1, profile.most + 1))]
        self._steps, self._now = 0.0, 0.0
        self._waiting: deque[int] = deque()
        # The running streams by the step after which they pass their next mark: a mark is the first
        # sound or the end.
        self._marks: list[tuple[float, int, bool]] = []
        self._running = 0
        self.version = 0

    @property
    def ongoing(self) -> int:
        """Requests that run or wait here."""
        return self._running + len(self._waiting)

    def next_mark(self) -> float:
        """Return when the next stream passes a mark; infinity if none runs."""
        if not self._marks:
            return float("inf")
        return self._now + (self._marks[0][0] - self._steps) * self._table[self._running]

    def take(self, request: int, now: float, lengths: Sequence[int]) -> bool:
        """Take a request; return whether it starts at once."""
        self._advance(now)
        if self._running == self._profile.most:
            self._waiting.append(request)
            return False
        self._start(request, lengths)
        return True

    def pass_mark(self, now: float, lengths: Sequence[int]) -> tuple[int, bool, int | None]:
        """Let the next stream pass its mark, which is due now.

        Returns:
            The request, whether it ended, and the request that started in its place.
        """
        self._advance(now)
        mark, request, is_end = heapq.heappop(self._marks)
        self._steps = mark  # without the rounding of the clock
        if not is_end:
            return request, False, None
        self._running -= 1
        if not self._waiting:
            return request, True, None
        started = self._waiting.popleft()
        self._start(started, lengths)
        return request, True, started

    def _advance(self, now: float) -> None:
        if self._running:
            self._steps += (now - self._now) / self._table[self._running]
        self._now = now
        self.version += 1

    def _start(self, request: int, lengths: Sequence[int]) -> None:
        length = lengths[request]
        first = min(length, self._profile.first_frames)
        heapq.heappush(self._marks, (self._steps + first, request, False))
        heapq.heappush(self._marks, (self._steps + length, request, True))
        self._running += 1


# A policy returns the number of the replica that gets the next request.
Policy = Callable[[Sequence[Replica], Random, int], int]


def round_robin(replicas: Sequence[Replica], random: Random, count: int) -> int:
    """Return each replica in turn."""
    return count % len(replicas)


def power_of_two(replicas: Sequence[Replica], random: Random, count: int) -> int:
    """Return the less busy one of two random replicas."""
    first = random.randrange(len(replicas))
    second = (first + 1 + random.randrange(max(1, len(replicas) - 1))) % len(replicas)
    return first if replicas[first].ongoing <= replicas[second].ongoing else second


def least_ongoing(replicas: Sequence[Replica], random: Random, count: int) -> int:
    """Return the replica with the fewest ongoing requests; of equal ones the next in turn."""

    def order(number: int) -> tuple[int, int]:
        return replicas[number].ongoing, (number - count) % len(replicas)

    return min(range(len(replicas)), key=order)


POLICIES: dict[str, Policy] = {
    "round robin": round_robin,
    "power of two": power_of_two,
    "least ongoing": least_ongoing,
}


@dataclass(frozen=True)
class Outcome:
    """The waits of all requests, in seconds, (n,) each.

    Attributes:
        queued: from the arrival to the start.
        first_sound: from the arrival to the first sound.
        latency: from the arrival to the last frame.
    """

    queued: NDArray[np.float64]
    first_sound: NDArray[np.float64]
    latency: NDArray[np.float64]


def simulate(
    profile: Profile,
    replicas: int,
    policy: Policy,
    moments: NDArray[np.float64],
    lengths: NDArray[np.int64],
    seed: int = 0,
) -> Outcome:
    """Let requests come to so many replicas, until all are served.

    Args:
        moments: when they come, in seconds, ascending, (n,).
        lengths: their frames, (n,).
        seed: of the policy's random choices.
    """
    random = Random(seed)
    frames: list[int] = lengths.tolist()
    arrivals: list[float] = moments.tolist()
    servers = [Replica(number, profile) for number in range(replicas)]
    queued = np.zeros(len(frames))
    first_sound, latency = np.zeros(len(frames)), np.zeros(len(frames))
    due: list[tuple[float, int, int]] = []

    def plan(server: Replica) -> None:
        heapq.heappush(due, (server.next_mark(), server.number, server.version))

    def pass_marks(until: float) -> None:
        while due and due[0][0] <= until:
            now, number, version = heapq.heappop(due)
            server = servers[number]
            if version != server.version:  # another request changed its speed
                continue
            request, is_end, started = server.pass_mark(now, frames)
            (latency if is_end else first_sound)[request] = now - arrivals[request]
            if started is not None:
                queued[started] = now - arrivals[started]
            if server.ongoing:
                plan(server)

    for request, now in enumerate(arrivals):
        pass_marks(now)
        server = servers[policy(servers, random, request)]
        server.take(request, now, frames)
        plan(server)
    pass_marks(float("inf"))
    return Outcome(queued, first_sound + profile.first_seconds, latency)
