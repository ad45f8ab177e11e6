"""Delays the wait of each kernel, in launches that read one another's results.

``python -m tests.ptx.early CAPABILITY`` prints a line for each kernel with a wait, and for each
place that the wait is moved to: what the emulator finds, or ``missed``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor

from ChatTTS.model.kernels.cuda import (
    attention,
    embedding,
    low_rank,
    norm,
    output_product,
    products,
    prompt_attention,
    rotary,
)
from ChatTTS.model.kernels.cuda.product_kernels import product_in_tiles, product_in_turns

from .launches import Emulation
from .overlap import LaunchOrder
from .program import Instruction, Program

# One head of keys and values serves two heads of queries.
_ROWS, _HIDDEN, _HEADS = 3, 64, 4


def launches() -> None:
    """Launch each kernel that overlaps; it reads what the launch before it has written."""
    random = torch.manual_seed(0)

    def normal(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return (torch.randn(*sizes, generator=random) * 0.2).to(dtype)

    def computed(
        config: products.KernelConfig, x: Tensor, normed: tuple[Tensor, float] | None = None
    ) -> Tensor:
        out, weight = torch.empty_like(x), normal(_HIDDEN, _HIDDEN)
        products.compute(config, x, weight, out, norm=normed, gated=False, added=False)
        return out

    kinds, ids = torch.ones(_ROWS, dtype=torch.uint8), torch.ones(_ROWS, 2, dtype=torch.int32)
    vectors = normal(1, _HIDDEN, dtype=torch.float32)
    for dtype in (torch.float32, torch.bfloat16):
        gain = normal(_HIDDEN, dtype=dtype)
        tables = normal(9, _HIDDEN, dtype=dtype), normal(12, _HIDDEN, dtype=dtype)
        x = embedding.embed_rows(kinds, ids, vectors, *tables)
        x = products.product(x, normal(_HIDDEN, _HIDDEN, dtype=dtype))
        x = norm.rms_norm(x, gain, 1e-5)
        x = products.product(x, normal(_HIDDEN, _HIDDEN, dtype=dtype))
    in_turns = products.KernelConfig(product_in_turns, 16, 16, 4, 4)
    x = computed(in_turns, x)
    x = computed(products.KernelConfig(product_in_tiles, 64, 32, 4, 4), x)
    x = computed(in_turns, x, (gain, 1e-5))
    low = low_rank.LowRanks(
        normal(4, _HIDDEN, dtype=torch.float32),
        normal(4, 2 * _HIDDEN, dtype=torch.float32),
        torch.tensor([0, 4], dtype=torch.int32),
        1,
        4,
    )
    ranks = low_rank.to_ranks(x, low, torch.zeros(_ROWS, dtype=torch.int32))
    qkv = products.product(x, normal(2 * _HIDDEN, _HIDDEN), ranks=ranks)
    blocks = torch.arange(6, dtype=torch.int32).reshape(_ROWS, 2)
    where = blocks, torch.arange(_ROWS, dtype=torch.int32), torch.tensor([3, 9, 0]).int()
    angles = normal(16, 16, dtype=torch.float32)
    turns, pool = (angles.cos(), angles.sin()), normal(6, 1, 2, 2, 8, 16)
    with patch.object(attention, "PROGRAMS", 1):
        splits = attention.attend_new_rows(
            qkv, turns, pool, 0, *where, heads=_HEADS, max_positions=16
        )
    x = output_product.product_of_splits(splits, normal(_HIDDEN, _HIDDEN), x)
    qkv = products.product(x, normal(2 * _HIDDEN, _HIDDEN))
    blocks, table_of, positions = where
    query = rotary.rotate_and_store(qkv, *turns, positions, blocks, table_of, pool, 0, _HEADS)
    x = attention.attend_rows(query, pool, 0, *where, max_positions=16).flatten(1)
    qkv = products.product(x, normal(2 * _HIDDEN, _HIDDEN))
    query = rotary.rotate_and_store(qkv, *turns, positions, blocks, table_of, pool, 0, _HEADS)
    # Rows that attend to all of a split: the first store of the kernel is theirs.
    blocks = torch.arange(_ROWS * 32, dtype=torch.int32).reshape(_ROWS, 32)
    where = blocks, table_of, torch.full_like(positions, attention.SPLIT - 1)
    pool = normal(_ROWS * 32, 1, 2, 2, 8, 16)
    prompt_attention.attend_prompts(
        query, pool, 0, *where, max_positions=attention.SPLIT, tile_rows=2
    )


def is_wait(line: Instruction) -> bool:
    """Return whether a line waits for the previous launch."""
    return line.parts[0] == "griddepcontrol" and "wait" in line.parts


def delayed(program: Program, *, behind: bool) -> Program:
    """Return the program with its wait at the first store: in front of it, or behind it.

    A branch to that place carries out the wait as well.
    """
    begin = next(at for at, line in enumerate(program.code) if is_wait(line))
    store = next(at for at, line in enumerate(program.code) if line.parts[:2] == ("st", "global"))
    assert begin < store
    end = store + behind
    code = program.code
    moved = (*code[:begin], *code[begin + 1 : end], code[begin], *code[end:])
    labels = {name: at - (begin < at <= end) for name, at in program.labels.items()}
    return replace(program, code=moved, labels=labels)


def main(capability: str) -> None:
    waiting: dict[str, bool] = {}
    order = LaunchOrder()
    emulation = Emulation(int(capability), races=False, order=order)
    emulation.install()

    def note(kernel: str, program: Program) -> Program:
        waiting[kernel] = any(map(is_wait, program.code))
        return program

    emulation.change = note
    launches()
    print(f"right: {', '.join(waiting)}")
    for kernel in (name for name, waits in waiting.items() if waits):
        for behind in (False, True):
            emulation.change = partial(_delayed_in, kernel, behind)
            order.synchronize()
            try:
                launches()
                found = "missed"
            except RuntimeError as error:
                found = str(error)
            print(f"{'written' if behind else 'read'} early, {kernel}: {found}")


def _delayed_in(kernel: str, behind: bool, name: str, program: Program) -> Program:
    return delayed(program, behind=behind) if name == kernel else program


if __name__ == "__main__":
    main(*sys.argv[1:])
