"""Kernels run on the GPU where there is one, and under Triton's interpreter elsewhere.

A child process of ``tests/ptx`` compiles them instead, and runs them in the emulator.

Import this before any kernel: Triton reads its setting when a kernel is declared.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

EMULATED = "CHATTTS_TESTS_EMULATED" in os.environ
if not torch.cuda.is_available() and not EMULATED:
    os.environ["TRITON_INTERPRET"] = "1"

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _dot_in_one_order(
    self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any
) -> Any:
    """Multiply as a compiled kernel does: every number is one sum, in the order of the inputs.

    The interpreter's own product is the BLAS of NumPy, whose order of summation depends on the
    shape and on the processor.
    """
    kind = d.data.dtype
    left, right = a.data.astype(kind), b.data.astype(kind)
    total = d.data.copy()
    for k in range(left.shape[-1]):
        total += left[..., :, k : k + 1] * right[..., k : k + 1, :]
    return type(d)(total, d.dtype.scalar)


def _sum_in_one_order(self: Any, given: Any) -> Any:
    """Add one number after another, whatever other dimensions there are.

    NumPy's order of summation depends on where the numbers lie in memory.
    """
    whole = given.handle.data
    if self.axis is None or whole.dtype.kind != "f":
        return _SUM(self, given)
    total = np.add.accumulate(whole, axis=self.axis).take(-1, axis=self.axis)
    return self.to_tensor(
        np.expand_dims(total, self.axis) if self.keep_dims else total, given.dtype
    )


_patched: set[str] = set()


def _call_within_a_launch(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of a kernel.

    The interpreter would patch Triton's language in each such call, which takes longer than the
    computing. A launch has done that; other modules that a function sees stay patched.
    """
    if self.fn.__module__ not in _patched:
        _patched.add(self.fn.__module__)
        return _CALL(self, *args, **kwargs)
    return self.rewrite()(*args, **kwargs)


if DEVICE.type == "cpu" and not EMULATED:
    try:
        from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, ReduceOps
    except ImportError:  # no Triton: its tests are skipped
        pass
    else:
        InterpreterBuilder.create_dot = _dot_in_one_order
        _SUM, ReduceOps.sum = ReduceOps.sum, _sum_in_one_order
        _CALL, InterpretedFunction.__call__ = InterpretedFunction.__call__, _call_within_a_launch
