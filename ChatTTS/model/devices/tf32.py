"""Float32 products and convolutions with all their bits, whatever the process has set."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from ...utils.locks import new_lock

# Sets a setting of the process, and returns what puts it back.
_Change = Callable[[], Callable[[], None]]


def ieee_float32() -> AbstractContextManager[None]:
    """Compute and capture without TF32 in this context.

    The setting is the process's, so other threads see it while the context lasts. Where contexts of
    several threads overlap, it lasts until the last of them ends.
    """
    return _PRODUCTS


def ieee_convolutions() -> AbstractContextManager[None]:
    """Let cuDNN convolve without TF32 in this context, which it takes by default.

    The setting is shared as that of :func:`ieee_float32`.
    """
    return _CONVOLUTIONS


class _Shared(AbstractContextManager[None]):
    """A context of many threads: the first puts a change into effect, the last takes it back.

    Args:
        change: made again by each thread that enters, since other code may have undone it.
    """

    def __init__(self, change: _Change) -> None:
        self._change = change
        self._lock = new_lock()
        self._users = 0
        self._undo: Callable[[], None] = lambda: None

    def __enter__(self) -> None:
        with self._lock:
            undo = self._change()
            if not self._users:
                self._undo = undo
            self._users += 1

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._undo()


def _exact_products() -> Callable[[], None]:
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # it was set by torch's newer names, which the older ones do not know
        return _exact_by_newer_name(torch.backends.cuda.matmul)
    if before == "highest":
        return lambda: None
    torch.set_float32_matmul_precision("highest")
    return lambda: torch.set_float32_matmul_precision(before)


def _exact_convolutions() -> Callable[[], None]:
    cudnn: Any = torch.backends.cudnn
    try:
        before = cudnn.allow_tf32
    except RuntimeError:  # as above
        return _exact_by_newer_name(cudnn.conv)
    cudnn.allow_tf32 = False

    def undo() -> None:
        cudnn.allow_tf32 = before

    return undo


def _exact_by_newer_name(owner: Any) -> Callable[[], None]:
    before = owner.fp32_precision
    owner.fp32_precision = "ieee"

    def undo() -> None:
        owner.fp32_precision = before

    return undo


_PRODUCTS, _CONVOLUTIONS = _Shared(_exact_products), _Shared(_exact_convolutions)
