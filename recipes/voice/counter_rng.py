"""Random choices that are a pure function of a seed and a place, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class CounterRng:
    """A random number generator for one place, such as the index of an utterance.

    Philox is counter-based, so the generator of place 1 000 000 needs none of those before it. Only
    Philox's raw words are used, since NumPy may change its own distributions.

    Args:
        seed: any integer.
        place: index of the generator among those of this seed; any integer.
    """

    def __init__(self, seed: int, place: int) -> None:
        key = np.array([seed % 2**64, place % 2**64], dtype=np.uint64)
        self._source = np.random.Philox(key=key)
        self._words: list[int] = []

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        if not self._words:
            self._words = self._source.random_raw(64).tolist()
        return (self._words.pop() >> 11) * 2.0**-53

    def below(self, count: int) -> int:
        """Return an integer from 0 to ``count - 1``."""
        return int(self.fraction() * count)

    def integer(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def between(self, low: float, high: float) -> float:
        """Return a number from ``low`` to ``high``."""
        return low + (high - low) * self.fraction()

    def bernoulli(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.fraction() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Return one of ``items``."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return ``count`` of ``items`` (all, if they are fewer), in order, without repetition."""
        left, chosen = list(range(len(items))), []
        for _ in range(min(count, len(items))):
            chosen.append(left.pop(self.below(len(left))))
        return [items[i] for i in sorted(chosen)]
