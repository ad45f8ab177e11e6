"""The random numbers of :mod:`ChatTTS.model.random_numbers` on the device, equal bit for bit.

The generator is Philox-4x32-10 (Salmon et al. 2011). The reference is
:func:`ChatTTS.model.random_numbers.random_bits`.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def uniform_bits(
    position: tl.tensor,
    stream: tl.tensor,
    sample: tl.tensor,
    utterance: tl.tensor,
    seed_low: tl.tensor,
    seed_high: tl.tensor,
    codebook: tl.tensor,
) -> tl.tensor:
    """Return 24 random bits, an integer. Times 2**-24 it is a uniform number in [0, 1).

    Args:
        position: int32, index of the token or frame that is drawn.
        stream, sample, utterance: int32, bit patterns of counter words 1 to 3; ``stream`` does not
            contain the group of codebooks yet.
        seed_low, seed_high: int32, bit patterns of the key.
        codebook: int32, the codebook.

    Returns:
        int64 of the arguments' shape.
    """
    # The 32-bit words are kept in 64 bits, so products are complete and nothing overflows.
    x0 = _word(position)
    x1 = _word(stream) | _word(codebook // 4)
    x2 = _word(sample)
    x3 = _word(utterance)
    k0 = _word(seed_low)
    k1 = _word(seed_high)
    for _ in tl.static_range(10):
        p0 = x0 * 0xD2511F53
        p1 = x2 * 0xCD9E8D57
        x0 = (p1 >> 32) ^ x1 ^ k0
        x1 = p1 & 0xFFFFFFFF
        x2 = (p0 >> 32) ^ x3 ^ k1
        x3 = p0 & 0xFFFFFFFF
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    word = codebook % 4
    chosen = tl.where(word < 2, tl.where(word == 0, x0, x1), tl.where(word == 2, x2, x3))
    return (chosen >> 8).to(tl.int64)


@triton.jit
def _word(pattern: tl.tensor) -> tl.tensor:
    """Return the bits of an int32 as uint64."""
    return pattern.to(tl.uint32, bitcast=True).to(tl.uint64)
