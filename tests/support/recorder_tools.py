"""A recorder that lets go of the work, as a graph does: it knows addresses and keeps nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ChatTTS.model.cuda.graphs import EagerRecorder


class ForgetfulRecorder(EagerRecorder):
    """Notes what recorded work reads and did not make itself; nothing can be replayed."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[int, StorageWeakRef] = {}

    @torch.inference_mode()
    def record(self, work: Callable[[], Any]) -> Any:
        with _Inputs() as inputs:
            work()
        self._read |= inputs.given
        self.captures += 1

    def lost(self) -> int:
        """How many tensors a graph would read that are gone by now."""
        gc.collect()
        assert self._read, "the work reads nothing"
        return sum(storage.expired() for storage in self._read.values())


class _Inputs(TorchDispatchMode):
    """The memory that operators are given and none of them made."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[int, StorageWeakRef] = {}
        self._made: dict[int, StorageWeakRef] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is not torch.ops.aten.lift_fresh.default:  # a literal, made at this moment
            self._note((args, kwargs), self.given, self._made)
        result = func(*args, **(kwargs or {}))
        self._note(result, self._made, self.given)
        return result

    def _note(
        self, tensors: Any, own: dict[int, StorageWeakRef], others: dict[int, StorageWeakRef]
    ) -> None:
        for tensor in tree_leaves(tensors):
            if isinstance(tensor, Tensor):
                storage = StorageWeakRef(tensor.untyped_storage())
                if storage.cdata not in others:
                    own[storage.cdata] = storage
