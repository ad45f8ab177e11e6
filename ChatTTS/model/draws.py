"""Random numbers that are a pure function of a key and a counter.

A draw must not depend on what runs beside it, on the order of requests, on preemption or on the
device. So there is no generator with a state: the uniform number of a draw is Philox-4x32-10
(Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) with the seed as its key and
the place of the draw as its counter.

Counter words: position; pass and group of four codebooks; sample and attempt; utterance.
The four output words belong to the four codebooks of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class Pass(IntEnum):
    """Which language-model pass a draw belongs to."""

    CODE = 0
    REFINE = 1


@dataclass(frozen=True)
class DrawKey:
    """All that a request's draws depend on, but for the position and the codebook."""

    seed: int
    kind: Pass
    utterance: int = 0
    sample: int = 0
    attempt: int = 0


def philox(counter: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Philox-4x32-10. ``counter`` [4, ...] and ``key`` [2, ...] hold 32-bit words; so does the
    result [4, ...]."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = _MULTIPLIERS[0] * x0, _MULTIPLIERS[1] * x2
        x0, x1, x2, x3 = (p1 >> _HALF) ^ x1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ x3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return np.stack([x0, x1, x2, x3])


def uniforms(
    keys: Sequence[DrawKey], positions: Sequence[int], num_codebooks: int
) -> NDArray[np.float32]:
    """One number in [0, 1) for each row and codebook, of 24 random bits.

    Args:
        keys: one for each row.
        positions: index of the token or frame that each row draws, counted from 0.
        num_codebooks: number of codebooks (1 for text).

    Returns:
        float32 of shape (rows, num_codebooks).
    """
    groups = np.arange((num_codebooks + 3) // 4, dtype=np.uint64)
    rows = np.array(
        [
            (
                p,
                int(k.kind) << 16,
                k.sample & 0xFFFF | k.attempt << 16,
                k.utterance,
                *_words(k.seed),
            )
            for k, p in zip(keys, positions, strict=True)
        ],
        dtype=np.uint64,
    )  # (rows, 6)
    shape = (len(rows), len(groups))
    words = [np.broadcast_to(column[:, None], shape) for column in rows.T]
    words[1] = words[1] | groups
    out = philox(np.stack(words[:4]), np.stack(words[4:]))  # (4, rows, groups)
    bits = out.transpose(1, 2, 0).reshape(len(rows), -1)[:, :num_codebooks] >> np.uint64(8)
    return np.ascontiguousarray(bits, dtype=np.float32) * np.float32(2.0**-24)


def _words(seed: int) -> tuple[int, int]:
    seed %= 2**64
    return seed & 0xFFFFFFFF, seed >> 32
