"""Compares what attention fetches ahead with the weights, line by line.

A program that has several splits fetches the next one; these are compared as well.

``python -m tests.ptx.fetches CAPABILITY`` prints a line for each case, and one for each fault.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from ChatTTS.model.kernels.cuda import attention
from ChatTTS.model.kernels.cuda.prefetch import LINE, MAX_ROWS, Prefetch
from ChatTTS.model.kernels.int8 import split_scales

from ..support.cache_tools import in_int8
from .launches import Emulation
from .program import Program

_HEADS, _SIZE, _BLOCK, _MAX_POSITIONS = 2, 64, 16, 700
# The position of each row, -1 for padding.
CASES: dict[str, tuple[int, ...]] = {
    "one row": (300,),
    "one row of one position": (0,),
    "rows and padding": (600, -1, 20, 255, 256),
    "as many rows as may be": tuple(range(MAX_ROWS)),
    "no program is idle": (_MAX_POSITIONS - 1,),
}


def random(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*sizes, generator=torch.manual_seed(sum(sizes))).to(dtype)


def attended(
    positions: Sequence[int],
    ahead: Sequence[Tensor],
    dtype: torch.dtype,
    pool_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Return attention to random contexts, and the keys and values, by default in ``dtype``."""
    rows, blocks = len(positions), -(-_MAX_POSITIONS // _BLOCK)
    tables = torch.arange(rows * blocks, dtype=torch.int32).reshape(rows, blocks)
    own = torch.tensor(positions, dtype=torch.int32)
    table_of = torch.where(own < 0, -1, torch.arange(rows)).int()
    pool = random(rows * blocks, 1, 2, _HEADS, _BLOCK, _SIZE, dtype=dtype)
    if pool_dtype is torch.int8:
        pool = in_int8(pool)
    angles = 6 * random(_MAX_POSITIONS, _SIZE, dtype=torch.float32)
    splits = attention.attend_new_rows(
        random(rows, 3 * _HEADS * _SIZE, dtype=dtype),
        (angles.cos(), angles.sin()),
        pool,
        0,
        tables,
        table_of,
        own.clamp_min(0),
        heads=_HEADS,
        max_positions=_MAX_POSITIONS,
        ahead=ahead,
    )
    return splits.merged(dtype), pool


def main(capability: str) -> None:
    emulation = Emulation(int(capability))
    emulation.install()
    fetched: list[Counter[int]] = []
    launch = emulation._launch

    def noting(name: str, *given: Any) -> None:
        launch(name, *given)
        if name == "_attend_splits":
            fetched.append(emulation.fetched)

    with patch.object(emulation, "_launch", noting):
        for dtype in (torch.bfloat16, torch.float32):
            # The last line of each but the first is not whole.
            ahead = tuple(random(outputs, 70, dtype=dtype) for outputs in (64, 3, 50, 7))
            for name, positions in CASES.items():
                fetched.clear()
                found = attended(positions, ahead, dtype)
                expected = attended(positions, (), dtype)
                same = all(map(torch.equal, found, expected))
                print(f"{name}: {_told(fetched[0], ahead)}, same bits {same}, {len(fetched[1])}")
        for pool_dtype in (torch.bfloat16, torch.float32, torch.int8):
            print(f"next splits, {pool_dtype}: {_next_splits(fetched, pool_dtype)}")
    _faults(emulation)


def _next_splits(fetched: list[Counter[int]], pool_dtype: torch.dtype) -> str:
    """Return how many places of later splits were fetched where a program has all splits."""
    positions = (600, -1, 20, 256, 255)
    dtype = torch.float32 if pool_dtype is torch.float32 else torch.bfloat16
    expected = attended(positions, (), dtype, pool_dtype)
    fetched.clear()
    with patch.object(attention, "PROGRAMS", 1):
        found = attended(positions, (), dtype, pool_dtype)
    of_rows = found[1].unflatten(0, (len(positions), -1))
    wanted = {
        place
        for row, position in enumerate(positions)
        for at in range(attention.SPLIT, position + 1)
        for block in (of_rows[row, at // _BLOCK, 0],)
        for place in _places(block, at % _BLOCK)
    }
    others = len(fetched[0].keys() - wanted)
    same = all(map(torch.equal, found, expected))
    missed = len(wanted - fetched[0].keys())
    return f"{len(wanted)} places, {missed} missed, {others} others, same bits {same}"


def _places(block: Tensor, slot: int) -> list[int]:
    """Return the addresses at which the keys and values of a position are fetched."""
    numbers, scales = split_scales(block) if block.dtype is torch.int8 else (block, None)
    found = [
        own.data_ptr() + at
        for own in numbers[..., slot, :].flatten(0, 1)
        for at in range(0, own.nbytes, LINE)
    ]
    if scales is not None:
        found += [own.data_ptr() for own in scales[..., slot].flatten()]
    return found


def _told(fetched: Counter[int], ahead: Sequence[Tensor]) -> str:
    """Return how many lines of the weights were fetched, and how often at the most."""
    lines = {w.data_ptr() + at for w in ahead for at in range(0, w.nbytes, LINE)}
    often = max((fetched[line] for line in lines), default=0)
    return f"{len(lines & fetched.keys())} of {len(lines)} lines, {often} times at most"


def _faults(emulation: Emulation) -> None:
    """Fetch a line behind the last matrix, and with all threads of each program."""
    ahead = tuple(random(outputs, 70) for outputs in (64, 3, 50, 7))
    of = Prefetch.of

    def longer(x: Tensor, weights: Sequence[Tensor]) -> Prefetch:
        right = of(x, weights)
        return replace(right, ends=(*right.ends[:-1], right.ends[-1] + 1))

    def unbounded(kernel: str, program: Program) -> Program:
        """Return the program with all its fetches carried out by all threads."""
        code = [
            replace(line, predicate=None) if line.parts[0] == "prefetch" else line
            for line in program.code
        ]
        return replace(program, code=tuple(code))

    with patch.object(Prefetch, "of", longer):
        _try("a line too many", (300,), ahead)
    emulation.change = unbounded
    _try("without a mask", (300,), ahead)


def _try(name: str, positions: Sequence[int], ahead: Sequence[Tensor]) -> None:
    try:
        attended(positions, ahead, torch.bfloat16)
        print(f"{name}: missed")
    except RuntimeError as error:
        print(f"{name}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
