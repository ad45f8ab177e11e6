"""The merge of attention to the splits of a context, and the lengths of contexts, for kernels."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def merged(
    sums: tl.tensor,
    stats: tl.tensor,
    head: tl.tensor,
    used: tl.tensor,
    max_used: tl.tensor,
    column: tl.tensor,
    splits: tl.tensor,
    size: tl.constexpr,
) -> tl.tensor:
    """Return the attention of heads to their whole context, float32; splits are added in order.

    All tensors can be broadcast to that of the result.

    Args:
        sums, stats: see :class:`~.attention.ContextSplits`.
        head: index of the head among those of all rows.
        used: the head's splits; 0 for padding, and where there is no such head.
        max_used: the greatest of ``used``.
        column: which of the head's numbers to return; those from ``size`` on are zeros.
        splits: the splits for which there is memory.
        size: of a head.
    """
    first = head.to(tl.int64) * splits
    nothing = (head * 0).to(tl.float32)
    greatest = nothing + float("-inf")
    # Four splits at a time, so that their loads do not wait for each other.
    for start in range(0, max_used, 4):
        for ahead in tl.static_range(4):
            there = start + ahead < used
            at = first + start + ahead
            seen = tl.load(stats + at * 2, mask=there, other=float("-inf"))
            greatest = tl.maximum(greatest, seen)
    greatest = tl.where(used > 0, greatest, 0.0)
    total = nothing
    weighted = nothing + (column * 0).to(tl.float32)
    for start in range(0, max_used, 4):
        for ahead in tl.static_range(4):
            there = start + ahead < used
            at = first + start + ahead
            share = tl.load(stats + at * 2, mask=there, other=float("-inf"))
            share = tl.exp2(share - greatest)
            total = tl.fma(share, tl.load(stats + at * 2 + 1, mask=there, other=0.0), total)
            part = tl.load(sums + at * size + column, mask=(column < size) & there, other=0.0)
            weighted = tl.fma(share, part, weighted)
    return weighted / tl.where(used > 0, total, 1.0)


@triton.jit
def row_length(
    table_of: tl.tensor, positions: tl.tensor, row: tl.tensor, exists: tl.tensor
) -> tl.tensor:
    """Return the number of positions that each row attends to, 0 for padding."""
    position = tl.load(positions + row, mask=exists, other=0)
    return tl.where(tl.load(table_of + row, mask=exists, other=-1) < 0, 0, position + 1)
