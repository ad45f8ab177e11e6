"""SwiGLU (Shazeer 2020), the gated activation of a feed-forward layer."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import silu

from .launching import launcher

_BLOCK = 1024


def swiglu(gate_up: Tensor) -> Tensor:
    """Multiply the SiLU of the first half of every row by the second half.

    Args:
        gate_up: [rows, 2 * inner], contiguous, of any float dtype.

    Returns:
        [rows, inner] in the dtype of ``gate_up``, to which the SiLU is rounded before the product.
    """
    rows, both = gate_up.shape
    inner = both // 2
    out = gate_up.new_empty(rows, inner)
    if rows:
        launcher(_swiglu, (rows, triton.cdiv(inner, _BLOCK)))(
            gate_up, out, inner, _BLOCK, num_warps=4
        )
    return out


def swiglu_torch(gate_up: Tensor) -> Tensor:
    """Compute :func:`swiglu` in plain torch."""
    gate, up = gate_up.chunk(2, dim=-1)
    return silu(gate) * up


@triton.jit
def _swiglu(gate_up: tl.tensor, out: tl.tensor, inner: tl.constexpr, block: tl.constexpr) -> None:
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < inner
    gate = tl.load(gate_up + row * 2 * inner + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * inner + inner + columns, mask=inside, other=0.0)
    rounded = (gate / (1.0 + tl.exp(-gate))).to(up.dtype)
    product = rounded.to(tl.float32) * up.to(tl.float32)
    tl.store(out + row * inner + columns, product.to(up.dtype), mask=inside)
