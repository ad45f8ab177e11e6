"""Kernels with one fault each; the main module of a child process, which prints what is found.

``python -m tests.ptx.faulty_kernels``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from .launches import Emulation


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
    tl.store(x + place, tl.load(x + 127 - place) + 1.0)


@triton.jit
def _adds(x: tl.tensor, out: tl.tensor) -> None:
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, 256)), axis=0))


def main() -> None:
    Emulation(90).install()
    x, one = torch.zeros(200), torch.zeros(1)
    odd = torch.frombuffer(bytearray(513), dtype=torch.float32, offset=1)
    right: dict[str, Callable[[], Any]] = {
        "within": lambda: _writes_beyond[(2,)](x, 200),
        "another warp after a barrier": lambda: _reads_another_warp[(1,)](x, True),
        "a sum": lambda: _adds[(1,)](torch.ones(256), one),
    }
    faults: dict[str, Callable[[], Any]] = {
        "beyond the end": lambda: _writes_beyond[(2,)](x, 201),
        "misaligned": lambda: _writes_beyond[(1,)](odd, 128),
        "one place": lambda: _programs_write_one_place[(2,)](x),
        "a neighbour": lambda: _reads_a_neighbour[(2,)](x),
        "another warp": lambda: _reads_another_warp[(1,)](x, False),
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
