"""The choice of a replica: two at random, of which the one with less work; cached samples first."""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from ...utils.lru import LRU
from ..requests.jobs import SpeechJob

R = TypeVar("R")

# Requests that the replica with the sample may run beyond the least busy one. More would cost a
# listener more than decoding the sample and computing its prompt elsewhere.
SLACK = 4
_SAMPLES_KEPT = 4096
# A request that was cancelled before it was sent counts so long, in seconds.
_CHOICE_SECONDS = 1.0


def sample_key(job: object) -> str | None:
    """Return the name of the sample prompt that a job speaks with; ``None`` for other jobs."""
    sample = job.voice.get("spk_smp") if isinstance(job, SpeechJob) else None
    if sample is None:
        return None
    return hashlib.sha256(sample.encode("utf-8")).hexdigest()


class Routes(Generic[R]):
    """Chooses replicas, and remembers the running requests and the replica that has each sample.

    A choice counts at once: of many requests that come together, each sees the ones before it.

    Args:
        slack: requests that the replica with the sample may run beyond the least busy one.
        draw: source of random numbers.
        clock: in seconds, monotonic.
    """

    def __init__(
        self,
        slack: int = SLACK,
        draw: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slack, self._draw, self._clock = slack, draw or random.Random(), clock
        self._affinity: LRU[str, R] = LRU(_SAMPLES_KEPT)
        # For each request its replica, and the time until which that is believed.
        self._going: dict[str, tuple[R, float]] = {}

    def choose(
        self, request: str, sample: str | None, replicas: Sequence[R], told: Mapping[R, int]
    ) -> list[R]:
        """Return the replicas for a request, the best first; at most three.

        Args:
            request: its id; a second choice for it replaces the first.
            sample: name of its sample prompt, if it has one.
            replicas: to choose from.
            told: running requests that replicas told of, those of other fronts among them.
        """
        self._going.pop(request, None)
        if not replicas:
            return []
        loads = self._loads(told)
        two = self._draw.sample(list(replicas), min(2, len(replicas)))
        two.sort(key=lambda replica: loads[replica])
        preferred = None if sample is None else self._affinity.get(sample)
        if preferred is not None and preferred in replicas:
            least = min(loads[replica] for replica in replicas)
            if loads[preferred] <= least + self._slack:
                two = [preferred, *(replica for replica in two if replica != preferred)]
        self._going[request] = two[0], self._clock() + _CHOICE_SECONDS
        return two

    def routed(self, request: str, sample: str | None, replica: R) -> None:
        """Note that a request went to a replica."""
        self._going[request] = replica, math.inf
        if sample is not None:
            self._affinity.put(sample, replica)

    def done(self, request: str) -> None:
        """Note that a request has ended."""
        self._going.pop(request, None)

    def _loads(self, told: Mapping[R, int]) -> Counter[R]:
        """Return the running requests of each replica, as far as they are known."""
        now = self._clock()
        self._going = {name: entry for name, entry in self._going.items() if entry[1] > now}
        own = Counter(replica for replica, _ in self._going.values())
        return own | Counter(told)
