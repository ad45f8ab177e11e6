"""The choice of a replica: two at random, of which the one with less work; cached samples first."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from ...utils.lru import LRU
from ..model import SpeechJob

R = TypeVar("R")

# Requests that the replica with the sample may run beyond the least busy one. More would cost a
# listener more than decoding the sample and computing its prompt elsewhere.
SLACK = 4
_SAMPLES_KEPT = 4096


def sample_key(job: object) -> str | None:
    """Return the name of the sample prompt that a job speaks with; ``None`` for other jobs."""
    sample = job.voice.get("spk_smp") if isinstance(job, SpeechJob) else None
    if sample is None:
        return None
    return hashlib.sha256(sample.encode("utf-8")).hexdigest()


class Affinity(Generic[R]):
    """Remembers where each sample was last used, and ranks replicas for requests.

    Args:
        slack: requests that the replica with the sample may run beyond the least busy one.
        draw: source of random numbers.
    """

    def __init__(self, slack: int = SLACK, draw: random.Random | None = None) -> None:
        self._slack, self._draw = slack, draw or random.Random()
        self._places: LRU[str, R] = LRU(_SAMPLES_KEPT)

    def ranks(
        self, sample: str | None, replicas: Sequence[R], loads: Mapping[R, int]
    ) -> list[list[R]]:
        """Return groups of replicas, the preferred group first; the least busy of a group serves.

        Args:
            sample: name of the request's sample prompt, if it has one.
            replicas: to choose from.
            loads: their running requests, where these are known.
        """
        if not replicas:
            return []
        two = self._draw.sample(list(replicas), min(2, len(replicas)))
        place = None if sample is None else self._places.get(sample)
        if place is None or place not in replicas:
            return [two]
        least = min(loads.get(replica, 0) for replica in replicas)
        if loads.get(place, 0) > least + self._slack:
            return [two]
        return [[place], two]

    def routed(self, sample: str | None, replica: R) -> None:
        """Note that a request with this sample went to a replica."""
        if sample is not None:
            self._places.put(sample, replica)
