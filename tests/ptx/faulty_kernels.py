"""Kernels with one fault each; the main module of a child process, which prints what is found.

``python -m tests.ptx.faulty_kernels``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ChatTTS.model.kernels.cuda.prefetch import prefetch

from .launches import SHARED, Emulation
from .overlap import LaunchOrder


@triton.jit
def _writes_beyond(x: tl.tensor, size: tl.constexpr) -> None:
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    tl.store(x + at, at.to(tl.float32), mask=at < size)


@triton.jit
def _programs_write_one_place(x: tl.tensor) -> None:
    tl.store(x, tl.program_id(0).to(tl.float32))


@triton.jit
def _reads_a_neighbour(x: tl.tensor) -> None:
    place = tl.program_id(0)
    tl.store(x + place, tl.load(x + (place + 1) % 2) + 1.0)


@triton.jit
def _reads_another_warp(x: tl.tensor, waits: tl.constexpr) -> None:
    place = tl.arange(0, 128)
    tl.store(x + place, place.to(tl.float32))
    if waits:
        tl.debug_barrier()
    mirrored = tl.load(x + 127 - place)
    if waits:
        tl.debug_barrier()
    tl.store(x + place, mirrored + 1.0)


@triton.jit
def _writes_what_another_warp_reads(x: tl.tensor, waits: tl.constexpr) -> None:
    place = tl.arange(0, 128)
    mirrored = tl.load(x + 127 - place)
    if waits:
        tl.debug_barrier()
    tl.store(x + place, mirrored)


@triton.jit
def _adds_one(x: tl.tensor, out: tl.tensor, wait: tl.constexpr) -> None:
    """Add one to each number, with the wait for the previous launch at one of four places."""
    place = tl.arange(0, 128)
    gdc_launch_dependents()
    if wait == "first":
        gdc_wait()
    number = tl.load(x + place)
    if wait == "read":
        gdc_wait()
    tl.store(out + place, number + 1.0)
    if wait == "written":
        gdc_wait()


@triton.jit
def _fetches(x: tl.tensor, first: tl.constexpr, last: tl.constexpr) -> None:
    line = tl.arange(0, 128)
    prefetch((x + line).to(tl.int64), (line >= first) & (line <= last))
    prefetch((x - 1 + line).to(tl.int64), (line > first) & (line < last))


@triton.jit
def _adds(x: tl.tensor, out: tl.tensor) -> None:
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, 256)), axis=0))


def main() -> None:
    order = LaunchOrder()
    Emulation(90, order=order).install()
    x, one = torch.zeros(200), torch.zeros(1)
    odd = torch.frombuffer(bytearray(513), dtype=torch.float32, offset=1)
    own, few = torch.zeros(4, 128), torch.zeros(100)

    def in_turn(*steps: tuple[int, int, str]) -> None:
        """Launch steps that read and write a row each, and have the wait somewhere."""
        order.synchronize()
        for read, write, wait in steps:
            overlaps = {"launch_pdl": True} if wait else {}
            _adds_one[(1,)](own[read], own[write], wait, **overlaps)

    def in_little_memory(launch: Callable[[], Any]) -> None:
        with patch.dict(SHARED, {90: 8}):
            launch()

    right: dict[str, Callable[[], Any]] = {
        "within": lambda: _writes_beyond[(2,)](x, 200),
        "another warp after a barrier": lambda: _reads_another_warp[(1,)](x, True),
        "a sum": lambda: _adds[(1,)](torch.ones(256), one),
        "a read and a write with a barrier": lambda: _writes_what_another_warp_reads[(1,)](x, True),
        "waits first": lambda: in_turn((0, 1, "first"), (1, 2, "first"), (2, 0, "first")),
        "reads what is there": lambda: in_turn((0, 1, "first"), (2, 3, "read")),
        "fetches within": lambda: _fetches[(1,)](few, 0, 99),
        "reads behind a full launch": lambda: in_turn((0, 1, "first"), (2, 3, ""), (1, 2, "read")),
    }
    faults: dict[str, Callable[[], Any]] = {
        "beyond the end": lambda: _writes_beyond[(2,)](x, 201),
        "misaligned": lambda: _writes_beyond[(1,)](odd, 128),
        "one place": lambda: _programs_write_one_place[(2,)](x),
        "a neighbour": lambda: _reads_a_neighbour[(2,)](x),
        "another warp": lambda: _reads_another_warp[(1,)](x, False),
        "a read and a write": lambda: _writes_what_another_warp_reads[(1,)](x, False),
        "early read": lambda: in_turn((0, 1, "first"), (1, 2, "read")),
        "early read of the one before": lambda: in_turn(
            (0, 1, "first"), (2, 3, "first"), (1, 2, "read")
        ),
        "early read of a full launch": lambda: in_turn((0, 1, ""), (1, 2, "read")),
        "early write of a result": lambda: in_turn((0, 1, "first"), (2, 1, "written")),
        "early write of an input": lambda: in_turn((0, 1, "first"), (2, 0, "written")),
        "early write": lambda: in_turn((0, 1, "written")),
        "fetches beyond the end": lambda: _fetches[(1,)](few, 0, 100),
        "fetches before the beginning": lambda: _fetches[(1,)](few, -1, 99),
        "little shared memory": lambda: in_little_memory(lambda: _adds[(1,)](torch.ones(256), one)),
        "no wait": lambda: in_turn((0, 1, "never")),
    }
    for name, run in (right | faults).items():
        try:
            run()
            print(f"{name}: right")
        except RuntimeError as error:
            print(f"{name}: {error}")
    print("sum", one.item(), "last", x[199].item())


if __name__ == "__main__":
    main()
