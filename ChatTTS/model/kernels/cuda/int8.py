"""Keys and values in eight bits, for kernels; :mod:`ChatTTS.model.kernels.int8` is the reference.

In kernels a pool's pointer tells its numbers: those of int8 have scales.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def absmax(x: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Return the greatest absolute value along an axis; infinity if any number is not finite."""
    size = tl.abs(x.to(tl.float32))
    return tl.max(tl.where(size < float("inf"), size, float("inf")), axis=axis)


@triton.jit
def scale_of(peak: tl.tensor) -> tl.tensor:
    """Return the scale of whole numbers whose greatest stands for ``peak``."""
    scale = tl.div_rn(tl.where(peak > 1e-30, peak, 0.0), peak * 0.0 + 127.0)
    return tl.where(peak < float("inf"), scale, float("nan"))


@triton.jit
def quantize(x: tl.tensor, peak: tl.tensor) -> tl.tensor:
    """Return int8 numbers that, times the scale of ``peak``, are nearest to ``x``."""
    is_usual = (peak > 1e-30) & (peak < float("inf"))
    divisor = tl.where(is_usual, peak, 1.0)
    factor = tl.where(is_usual, tl.div_rn(divisor * 0.0 + 127.0, divisor), 0.0)
    product = x.to(tl.float32) * factor
    # 1.5 * 2**23 leaves no place behind the point: the sum is rounded to a whole number, half to
    # even. A compiler that fused it with the product would round once less, so none may.
    nearest = (product + 12582912.0) - 12582912.0
    return tl.where(nearest == nearest, nearest, 0.0).to(tl.int32).to(tl.int8)


@triton.jit
def scale_address(
    head: tl.tensor, slot: tl.tensor, block_size: tl.constexpr, size: tl.constexpr
) -> tl.tensor:
    """Return the address of the scale of a position in a block.

    Args:
        head: address of the first number of the head in that block.
        slot: the position's place in the block.
    """
    return (head + block_size * size).to(tl.pointer_type(tl.float32)) + slot
