"""A bounded memory of what was worked out before."""

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
    """Counts go up from the beginning; ``size`` and ``weight`` hold now.

    Attributes:
        hits, misses: of all look-ups.
        size: entries.
        weight: of all entries together.
    """

    hits: int
    misses: int
    size: int
    weight: int


class LRU(Generic[K, V]):
    """Keeps what was used last, up to a total weight. Threads may share it.

    Args:
        capacity: greatest total weight; 0 keeps nothing.
        weigh: the weight of a value; 1 each by default.
    """

    def __init__(self, capacity: int, weigh: Callable[[V], int] = lambda value: 1) -> None:
        self._capacity, self._weigh = capacity, weigh
        self._entries: OrderedDict[K, tuple[int, V]] = OrderedDict()  # with their weights
        self._hits = self._misses = 0
        self._lock = new_lock()

    def get(self, key: K) -> V | None:
        """What is kept under ``key``."""
        with self._lock:
            if key not in self._entries:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end(key)
            return self._entries[key][1]

    def put(self, key: K, value: V) -> None:
        """Keep ``value``, if it is not too heavy by itself; the oldest make room."""
        weight = self._weigh(value)
        if weight > self._capacity:
            return
        with self._lock:
            self._entries[key] = weight, value
            self._entries.move_to_end(key)
            # Counted anew: a sum that is kept would be wrong for good after an interrupt, or in a
            # child that was forked, between an entry and its weight.
            total = self._total()
            while total > self._capacity:
                _, (oldest, _) = self._entries.popitem(last=False)
                total -= oldest

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """What is kept under ``key``, made now if need be; errors of ``make`` keep nothing."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def clear(self) -> None:
        """Forget all entries."""
        with self._lock:
            self._entries.clear()

    @property
    def counts(self) -> CacheCounts:
        """How useful it was so far."""
        with self._lock:
            return CacheCounts(self._hits, self._misses, len(self._entries), self._total())

    def _total(self) -> int:
        return sum(weight for weight, _ in self._entries.values())
