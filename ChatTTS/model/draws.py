"""Random numbers that are a pure function of a key and a counter.

A draw must not depend on the other requests, on their order, on preemption or on the device. So no
generator keeps a state: the uniform number of a draw is Philox-4x32-10 (Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011) with the seed as its key and the place of the draw as its
counter.

Counter words: position; pass and group of four codebooks; sample and attempt; utterance.
The four output words belong to the four codebooks of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

# Of Philox: the multipliers of its rounds, and what its key grows by.
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class Pass(IntEnum):
    """The language-model pass that a draw belongs to."""

    CODE = 0
    REFINE = 1


@dataclass(frozen=True)
class DrawKey:
    """Everything that a request's draws depend on, except the position and the codebook."""

    seed: int
    kind: Pass
    utterance: int = 0
    sample: int = 0
    attempt: int = 0


def philox(counter: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return Philox-4x32-10 of ``counter`` [4, ...] and ``key`` [2, ...], as [4, ...].

    All of them hold 32-bit words.
    """
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = MULTIPLIERS[0] * x0, MULTIPLIERS[1] * x2
        x0, x1, x2, x3 = (p1 >> _HALF) ^ x1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ x3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + WEYL[0]) & _LOW, (k1 + WEYL[1]) & _LOW
    return np.stack([x0, x1, x2, x3])


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


def uniforms(
    keys: Sequence[DrawKey], positions: Sequence[int], num_codebooks: int
) -> NDArray[np.float32]:
    """Return one number in [0, 1) for each row and codebook, of 24 random bits.

    Args:
        keys: one for each row.
        positions: index of the token or frame that each row draws, counted from 0.
        num_codebooks: number of codebooks (1 for text).

    Returns:
        float32 of shape (rows, num_codebooks).
    """
    words = np.array([key_words(key) for key in keys], dtype=np.uint64)
    return uniforms_of_words(words, np.array(positions, dtype=np.uint64), num_codebooks)


def uniforms_of_words(
    words: NDArray[np.uint64], positions: NDArray[np.uint64], num_codebooks: int
) -> NDArray[np.float32]:
    """Return the numbers of :func:`uniforms` for keys that are packed already.

    Args:
        words: (rows, 5), see :func:`key_words`.
        positions: (rows).
    """
    groups = np.arange((num_codebooks + 3) // 4, dtype=np.uint64)
    low, high, stream, sample, utterance = words.T[:, :, None]
    counter = np.broadcast_arrays(positions[:, None], stream | groups, sample, utterance)
    out = philox(np.stack(counter), np.stack([low, high]))  # (4, rows, groups)
    bits = out.transpose(1, 2, 0).reshape(len(words), -1)[:, :num_codebooks] >> np.uint64(8)
    numbers: NDArray[np.float32] = np.ascontiguousarray(bits, dtype=np.float32)
    numbers *= np.float32(2.0**-24)
    return numbers
