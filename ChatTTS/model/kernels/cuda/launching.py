"""Launches of kernels, and their compilation side by side before any of them is launched.

Triton compiles a kernel when it is first launched, one after another, some seconds for all kernels
of a model. Nearly all of that is spent outside of Python, so threads share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import triton

# Whether launches of this context compile their kernels and do nothing else.
_ONLY_COMPILES: ContextVar[bool] = ContextVar("_ONLY_COMPILES", default=False)


def launcher(kernel: Any, grid: tuple[int, ...]) -> Callable[..., object]:
    """Return what launches a kernel with its arguments; for :func:`compile_all`, what compiles it.

    Args:
        kernel: a function with Triton's decorator.
        grid: the numbers of programs.
    """
    if _ONLY_COMPILES.get():
        return partial(kernel.run, grid=grid, warmup=True)
    launch: Callable[..., object] = kernel[grid]
    return launch


def compile_all(works: Iterable[Callable[[], object]], threads: int) -> None:
    """Compile all kernels that ``works`` would launch, side by side, and launch none.

    What else they do is done, on values that no kernel has written. Releases of Triton without
    ``AsyncCompileMode`` compile at the first launch.

    Args:
        works: may be captured, so nothing in them depends on values.
        threads: how many kernels are compiled at a time.
    """
    compiling = getattr(triton, "AsyncCompileMode", None)
    if compiling is None:
        return

    def compile_their_kernels() -> None:
        _ONLY_COMPILES.set(True)
        with ThreadPoolExecutor(threads, "compiling") as executor, compiling(executor):
            for work in works:
                work()

    # Both modes end with this context, also where a kernel cannot be compiled.
    copy_context().run(compile_their_kernels)
