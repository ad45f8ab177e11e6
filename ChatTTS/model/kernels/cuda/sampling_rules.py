"""The steps of :mod:`ChatTTS.model.sampling` that the sampling kernels are made of.

There is no sort. Ids are ordered by unique keys: the bits of the logit, then the id. The lowest key
that is kept is found by bisection. This works because the higher a bound is, the less likely top-p
and top-k are to drop all ids below it. Bisection needs comparisons and sums of integers alone, on
which Triton's interpreter and compiler agree exactly.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .philox import uniform_bits

# The greatest probability as a whole number. The sum over 2**22 ids still fits into 63 bits.
UNIT = 2.0**40
# Up to so many ids share one number of 64 bits with the sum of their probabilities.
COUNTED_BITS = 10


@triton.jit
def apply_temperature(plain: tl.tensor, temperature: tl.tensor) -> tl.tensor:
    """Return logits after temperature; 0 is greedy, which changes none."""
    return tl.div_rn(plain, tl.where(temperature == 0.0, 1.0, temperature))


@triton.jit
def apply_penalty(x: tl.tensor, factor: tl.tensor) -> tl.tensor:
    """Return logits after repetition penalty: ``factor`` is its power by the id's repetitions."""
    return tl.where(x > 0.0, tl.div_rn(x, factor), x * factor)


@triton.jit
def bounded(x: tl.tensor) -> tl.tensor:
    """Return finite logits without -0.0."""
    # An extreme penalty overflows; the draw needs finite numbers. -0.0 becomes 0.0, since the two
    # are equal but their bits differ.
    x = tl.where((x != x) | (x == 0.0), 0.0, x)
    return tl.minimum(tl.maximum(x, -3.4028234663852886e38), 3.4028234663852886e38)


@triton.jit
def weights_of(x: tl.tensor, peak: tl.tensor, unit: tl.constexpr) -> tl.tensor:
    """Return the probabilities as int64 weights; that of the logit ``peak`` is ``unit``.

    They are rounded up, so that a probability above zero in float32 has a weight above zero. Once
    the end is forbidden, such an id may be the only one left.
    """
    return tl.ceil(tl.exp(x - peak) * unit).to(tl.int64)


@triton.jit
def share(total: tl.tensor, bits: tl.tensor) -> tl.tensor:
    """Return ``total`` times ``bits`` times 2**-24, rounded down, without overflowing products."""
    return (total >> 24) * bits + (((total & 0xFFFFFF) * bits) >> 24)


@triton.jit
def most_dropped(total: tl.tensor, top_p: tl.tensor) -> tl.tensor:
    """Return the weight that top-p may drop of a total.

    1 - top_p is a multiple of 2**-24 wherever top_p lies in [0, 1], so this is exact.
    """
    return share(total, ((1.0 - top_p) * 16777216.0).to(tl.int64))


@triton.jit
def drawn_share(
    total: tl.tensor,
    words: tl.tensor,
    row: tl.tensor,
    number: tl.tensor,
    codebook: tl.tensor,
) -> tl.tensor:
    """Return the share of a total weight that the row's random number stands for.

    The first id whose cumulative weight exceeds it always has a weight above zero.
    """
    key = words + row * 5
    bits = uniform_bits(
        number,
        tl.load(key + 2),
        tl.load(key + 3),
        tl.load(key + 4),
        tl.load(key),
        tl.load(key + 1),
        codebook,
    )
    return share(total, bits)


@triton.jit
def ordered(x: tl.tensor) -> tl.tensor:
    """Return int64 numbers in the order of the float32 ``x``."""
    pattern = x.to(tl.int32, bitcast=True)
    return tl.where(pattern >= 0, pattern, pattern ^ 0x7FFFFFFF).to(tl.int64)


@triton.jit
def may_drop(
    count: tl.tensor,
    weight: tl.tensor,
    limit: tl.tensor,
    top_k: tl.tensor,
    vocabulary: tl.constexpr,
    min_kept: tl.constexpr,
) -> tl.tensor:
    """Return whether top-p and top-k drop the ``count`` lowest ids, which weigh ``weight``.

    Both drop ids from the bottom of an ascending order, in which the larger id is the higher one of
    two with equal logits. All ids below a bound can be dropped if the highest of them can be; top-p
    judges that one by the weight of all ids below the bound. If all ids below a bound can be
    dropped, then so can all ids below every lower bound.
    """
    rank = vocabulary - count + 1  # of the highest of them; the best id has rank 1
    return (count == 0) | (((weight <= limit) | (rank > top_k)) & (rank > min_kept))


@triton.jit
def lowest_kept(
    keys: tl.tensor,
    weights: tl.tensor,
    real: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    below_low: tl.tensor,
    below_high: tl.tensor,
    weight_below: tl.tensor,
    limit: tl.tensor,
    top_k: tl.tensor,
    vocabulary: tl.constexpr,
    min_kept: tl.constexpr,
    counted_bits: tl.constexpr,
) -> tl.tensor:
    """Return a bound of keys: the ids from it on are kept.

    Args:
        keys, weights, real: at least the ids from ``low`` to ``high``; none that is lower.
        low, high: all ids below ``low`` can be dropped, but not all below ``high``.
        below_low, below_high: numbers of ids below the two.
        weight_below: weight of the ids below ``low``.
        limit, top_k, vocabulary, min_kept: see :func:`may_drop`.
        counted_bits: binary digits of the number of keys.
    """
    # Weight and count share one number, so that one sum adds up both.
    marked = tl.where(real, (weights << (counted_bits + 1)) + 1, 0)
    lower = below_low
    # When a single id is left between the two, it is the lowest that is kept.
    while below_high - below_low > 1:
        middle = (low + high) >> 1
        sums = tl.sum(tl.where(keys < middle, marked, 0), axis=0)
        below = lower + (sums & ((2 << counted_bits) - 1))
        weight = weight_below + (sums >> (counted_bits + 1))
        dropped = may_drop(below, weight, limit, top_k, vocabulary, min_kept)
        low = tl.where(dropped, middle, low)
        below_low = tl.where(dropped, below, below_low)
        high = tl.where(dropped, high, middle)
        below_high = tl.where(dropped, below_high, below)
    return low
