"""A bounded LRU cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .locks import new_lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class CacheCounts:
    """Counters of a cache.

    Attributes:
        hits, misses: of all look-ups so far.
        size: present number of entries.
        weight: present weight of all entries.
    """

    hits: int
    misses: int
    size: int
    weight: int

    def plus(self, other: CacheCounts) -> CacheCounts:
        """Return the counts of two caches together."""
        return CacheCounts(
            self.hits + other.hits,
            self.misses + other.misses,
            self.size + other.size,
            self.weight + other.weight,
        )


class LRU(Generic[K, V]):
    """Keeps the entries that were used last, up to a total weight. Threads may share it.

    Args:
        capacity: greatest total weight; with 0 the cache keeps nothing.
        weigh: returns the weight of a value; 1 by default.
    """

    def __init__(self, capacity: int, weigh: Callable[[V], int] = lambda value: 1) -> None:
        self._capacity, self._weigh = capacity, weigh
        self._entries: OrderedDict[K, tuple[int, V]] = OrderedDict()  # with their weights
        self._hits = self._misses = 0
        self._lock = new_lock()

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, or ``None``."""
        with self._lock:
            if key not in self._entries:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end(key)
            return self._entries[key][1]

    def put(self, key: K, value: V) -> None:
        """Keep ``value``, unless it exceeds the capacity alone; the oldest entries make room."""
        weight = self._weigh(value)
        if weight > self._capacity:
            return
        with self._lock:
            self._entries[key] = weight, value
            self._entries.move_to_end(key)
            # Counted anew: a stored sum would stay wrong after an interrupt or a fork between the
            # change of an entry and that of the sum.
            total = self._total()
            while total > self._capacity:
                _, (oldest, _) = self._entries.popitem(last=False)
                total -= oldest

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of ``key``, made where it is missing; errors keep nothing."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()

    @property
    def counts(self) -> CacheCounts:
        """The present counters."""
        with self._lock:
            return CacheCounts(self._hits, self._misses, len(self._entries), self._total())

    def _total(self) -> int:
        return sum(weight for weight, _ in self._entries.values())
