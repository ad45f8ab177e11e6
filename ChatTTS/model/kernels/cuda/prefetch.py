"""Prefetches into L2, the cache that all of a GPU shares, for the launches that come next.

At few rows most programs of attention have nothing to do, and the memory rests while a chain of
short launches goes on. So these programs ask for the weights of the next products: a fetch has no
result, and no program waits for it. No bit depends on fetches, and weights never change, so they
are asked for before the wait for the previous launch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from .split_merge import row_length

FETCH_VARIABLE = "CHATTTS_FETCH_AHEAD"
# Matrices that are fetched by one launch.
MATRICES = 4
# Bytes from one fetch to the next: a line of the cache.
LINE = 128
# With more rows, few programs are idle, and keys and values of the rows would push weights out.
MAX_ROWS = 16
# At most half of the L2 cache is filled ahead: the other half can be far from the program that
# reads, and the layer's other data need room, too.
_CACHE_PARTS = 2


@dataclass(frozen=True)
class Prefetch:
    """Matrices to prefetch, as kernels take them.

    Attributes:
        matrices: four, contiguous.
        ends: for each matrix, the lines up to its end, with those of the matrices before it; all
            zeros if nothing is fetched.
        line: bytes of a line.
    """

    matrices: tuple[Tensor, ...]
    ends: tuple[int, ...]
    line: int

    @classmethod
    def of(cls, x: Tensor, weights: Sequence[Tensor]) -> Prefetch:
        """Return what a launch on the rows ``x`` fetches: all of ``weights``, or nothing.

        It is nothing if there are no weights, or many rows, or no room in the cache.
        """
        room = cache_bytes(x) // _CACHE_PARTS if prefetches(x) and 0 < len(x) <= MAX_ROWS else 0
        if not (weights and sum(weight.nbytes for weight in weights) <= room):
            return cls((x,) * MATRICES, (0,) * MATRICES, LINE)
        assert len(weights) == MATRICES
        ends: list[int] = []
        for weight in weights:
            ends.append((ends[-1] if ends else 0) + triton.cdiv(weight.nbytes, LINE))
        return cls(tuple(weights), tuple(ends), LINE)


def prefetches(x: Tensor) -> bool:
    """Return whether launches on ``x`` may fetch: not in the interpreter, which knows no fetch.

    ``CHATTTS_FETCH_AHEAD=0`` in the environment turns fetches off.
    """
    return os.environ.get(FETCH_VARIABLE) != "0" and cache_bytes(x) > 0


def cache_bytes(x: Tensor) -> int:
    """Return the size of the cache of the device of ``x``; 0 in the interpreter."""
    return _cache_bytes(x.device) if x.is_cuda else 0


@cache
def _cache_bytes(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


@triton.jit
def prefetch_matrices(
    first: tl.tensor,
    second: tl.tensor,
    third: tl.tensor,
    fourth: tl.tensor,
    end_of_first: tl.constexpr,
    end_of_second: tl.constexpr,
    end_of_third: tl.constexpr,
    end: tl.constexpr,
    line_bytes: tl.constexpr,
    index: tl.tensor,
    count: tl.tensor,
    width: tl.constexpr,
) -> None:
    """Fetch a share of the lines of four matrices, those of the first matrix first.

    Args:
        first, second, third, fourth: the matrices.
        end_of_first, end_of_second, end_of_third, end, line_bytes: see :class:`Prefetch`.
        index, count: the share ``index`` of ``count`` shares.
        width: lines that are asked for at a time: as many as the program has threads.
    """
    for begin in range(index * width, end, count * width):
        line = begin + tl.arange(0, width)
        matrix = tl.where(line < end_of_first, first.to(tl.int64), second.to(tl.int64))
        matrix = tl.where(line < end_of_second, matrix, third.to(tl.int64))
        matrix = tl.where(line < end_of_third, matrix, fourth.to(tl.int64))
        before = tl.where(line < end_of_first, 0, end_of_first)
        before = tl.where(line < end_of_second, before, end_of_second)
        before = tl.where(line < end_of_third, before, end_of_third)
        prefetch(matrix + (line - before).to(tl.int64) * line_bytes, line < end)


@triton.jit
def prefetch(addresses: tl.tensor, wanted: tl.tensor) -> None:
    """Fetch the lines at ``addresses``, int64, where ``wanted``; the program does not wait."""
    tl.inline_asm_elementwise(
        """{
        .reg .pred %wanted;
        setp.ne.b32 %wanted, $2, 0;
        @%wanted prefetch.global.L2 [$1];
        mov.b32 $0, 0;
        }""",
        "=r,l,r",
        [addresses, wanted.to(tl.int32)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def idle_share(
    table_of: tl.tensor,
    positions: tl.tensor,
    used: tl.tensor,
    kv_heads: tl.tensor,
    split_size: tl.constexpr,
    max_rows: tl.constexpr,
) -> tl.tuple:
    """Return the number of this program among those without a split, and how many there are.

    The programs are those of a launch of rows, heads of keys and splits.

    ``used`` are the splits of the program's own row.
    """
    row, programs, every = tl.program_id(0), tl.num_programs(2), tl.arange(0, max_rows)
    exists = every < tl.num_programs(0)
    splits = tl.cdiv(row_length(table_of, positions, every, exists), split_size)
    idle = tl.where(exists, tl.maximum(programs - splits, 0), 0)
    before = tl.sum(tl.where(every < row, idle, 0), axis=0) * kv_heads
    index = before + tl.program_id(1) * (programs - used) + tl.program_id(2) - used
    return index, tl.sum(idle, axis=0) * kv_heads
