"""Random choices that are a pure function of a seed and a place, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class CounterRng:
    """The choices of one place, one after another.

    Philox is counter-based: the rng of place 1 000 000 are there at once, without those before.
    Only its raw words are used, since NumPy may change what it makes of them.

    Args:
        seed: of the whole; any integer.
        place: which rng of this seed; any integer.
    """

    def __init__(self, seed: int, place: int) -> None:
        key = np.array([seed % 2**64, place % 2**64], dtype=np.uint64)
        self._source = np.random.Philox(key=key)
        self._words: list[int] = []

    def fraction(self) -> float:
        """A number in [0, 1)."""
        if not self._words:
            self._words = self._source.random_raw(64).tolist()
        return (self._words.pop() >> 11) * 2.0**-53

    def below(self, count: int) -> int:
        """An integer from 0 to ``count - 1``."""
        return int(self.fraction() * count)

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def between(self, low: float, high: float) -> float:
        """A number from ``low`` to ``high``."""
        return low + (high - low) * self.fraction()

    def bernoulli(self, probability: float) -> bool:
        """True with this probability."""
        return self.fraction() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of ``items``."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` of ``items`` (all, where they are fewer), each at most once, in their order."""
        left, chosen = list(range(len(items))), []
        for _ in range(min(count, len(items))):
            chosen.append(left.pop(self.below(len(left))))
        return [items[i] for i in sorted(chosen)]
