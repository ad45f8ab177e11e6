"""Random numbers that are a pure function of a key and a counter.

A draw must not depend on the other requests, on their order, on preemption or on the device. So no
generator keeps a state: the uniform number of a draw is Philox-4x32-10 (Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011) with the seed as its key and the place of the draw as its
counter.

Counter words: position; pass and group of four codebooks; sample and attempt; utterance.
The four output words belong to the four codebooks of the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, shown
from ..params import NumberRule, read_numbers

# Of Philox: the multipliers of its rounds, and what its key grows by.
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


class Pass(IntEnum):
    """The language-model pass that a draw belongs to."""

    CODE = 0
    REFINE = 1


@dataclass(frozen=True)
class DrawKey:
    """Everything that a request's draws depend on, except the position and the codebook.

    Attributes:
        seed: any whole number; its lowest 64 bits count.
        utterance: of 32 bits.
        sample, attempt: of 16 bits.

    Raises:
        ConfigError: a value is invalid; the message names it.
    """

    seed: int
    kind: Pass
    utterance: int = 0
    sample: int = 0
    attempt: int = 0

    def __post_init__(self) -> None:
        read_numbers(self, _KEY_RULES, " of a draw key")
        try:
            kind = Pass(self.kind)
        except Exception as error:
            raise ConfigError(
                f"kind of a draw key must be a Pass, not {shown(self.kind)}"
            ) from error
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "seed", self.seed % 2**64)


def _of_bits(bits: int) -> NumberRule[int]:
    return NumberRule(int, f"from 0 to {2**bits - 1}", lambda number: 0 <= number < 2**bits)


_KEY_RULES: Mapping[str, NumberRule[int]] = {
    "seed": NumberRule(int, "a whole number", lambda _: True),
    "utterance": _of_bits(32),
    "sample": _of_bits(16),
    "attempt": _of_bits(16),
}


def philox(counter: Iterable[Any], key: Iterable[Any]) -> tuple[Any, Any, Any, Any]:
    """Return Philox-4x32-10 of four words of a counter and two of a key.

    All of them are arrays of 32-bit words: of NumPy's uint64, or torch's int64.
    """
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        # Products of signed numbers wrap around; their 64 bits are right all the same.
        p0, p1 = x0 * _MULTIPLIERS[0], x2 * _MULTIPLIERS[1]
        high0, high1 = (p0 >> 32) & _LOW, (p1 >> 32) & _LOW
        x0, x1, x2, x3 = high1 ^ x1 ^ k0, p1 & _LOW, high0 ^ x3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return x0, x1, x2, x3


def key_words(key: DrawKey) -> tuple[int, int, int, int, int]:
    """Return the 32-bit words of a key.

    They are the seed (low word, high word), then counter words 1 to 3: stream (the pass; the group
    of codebooks is added for each draw), sample and attempt, utterance.
    """
    words = (
        key.seed,
        key.seed >> 32,
        int(key.kind) << 16,
        key.sample & 0xFFFF | key.attempt << 16,
        key.utterance,
    )
    low, high, stream, sample, utterance = (word & 0xFFFFFFFF for word in words)
    return low, high, stream, sample, utterance


def random_bits(
    keys: Sequence[DrawKey], positions: Sequence[int], num_codebooks: int
) -> NDArray[np.int64]:
    """Return 24 random bits for each row and codebook.

    Args:
        keys: one for each row.
        positions: index of the token or frame that each row draws, counted from 0.
        num_codebooks: number of codebooks (1 for text).

    Returns:
        Whole numbers from 0 to 2**24 - 1, of shape (rows, num_codebooks).
    """
    words = np.array([key_words(key) for key in keys], dtype=np.uint64)
    groups = np.arange((num_codebooks + 3) // 4, dtype=np.uint64)
    low, high, stream, sample, utterance = words.T[:, :, None]
    counter = np.array(positions, dtype=np.uint64)[:, None], stream | groups, sample, utterance
    out = np.stack(philox(counter, (low, high)), axis=-1)  # [rows, groups, 4]
    bits: NDArray[np.uint64] = out.reshape(len(words), -1)[:, :num_codebooks] >> np.uint64(8)
    return bits.astype(np.int64)
