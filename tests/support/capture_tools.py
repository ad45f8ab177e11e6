"""Capturers that do without CUDA.

One is as strict as a graph, one captures what is replayed only, and one keeps nothing.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ChatTTS.model.cuda import graphs
from ChatTTS.model.cuda.graphs import CudaGraphCapturer, GraphCapturer

T = TypeVar("T")


def capture_anywhere(monkeypatch: pytest.MonkeyPatch, *, late: bool = False) -> None:
    """Have work for a CPU captured by :class:`EagerCapturer`, until the test ends.

    Args:
        late: by :class:`LateCapturer` instead.
    """
    kind = LateCapturer if late else EagerCapturer
    monkeypatch.setattr(graphs, "CudaGraphCapturer", partial(new_capturer, kind=kind))


def new_capturer(
    device: torch.device,
    *,
    advice: str = "a test",
    priority: int = 0,
    kind: Callable[[], GraphCapturer] | None = None,
) -> GraphCapturer:
    """Return a capturer for ``device``; without CUDA, one that does the work again.

    Args:
        kind: the one without CUDA; by default :class:`EagerCapturer`.
    """
    if device.type != "cuda":
        return (kind or EagerCapturer)()
    return CudaGraphCapturer(device, advice=advice, priority=priority)


class EagerGraph(Generic[T]):
    """Work that is called again, with its results at their first addresses.

    Attributes:
        result: see :class:`graphs.CapturedGraph`.

    Args:
        work: the work that is called again.
        result: the result of the first call.
        own: the tensors of the result that each call makes anew.
        before_replay: called before each replay.
    """

    def __init__(
        self,
        work: Callable[[], T],
        result: T,
        own: list[Tensor],
        before_replay: Callable[[], None],
    ) -> None:
        self.result = result
        self._work, self._own, self._before_replay = work, own, before_replay

    @torch.inference_mode()
    def replay(self) -> None:
        """See :class:`graphs.CapturedGraph`."""
        self._before_replay()
        fresh = _tensors(self._work())
        for held, given in zip(_tensors(self.result), fresh, strict=True):
            if held.shape != given.shape or held.dtype != given.dtype:
                raise RuntimeError(
                    f"captured work gave {held.dtype} {list(held.shape)} and now {given.dtype} "
                    f"{list(given.shape)}: a graph has one shape"
                )
            held.copy_(given)

    @torch.inference_mode()
    def spoil(self) -> None:
        """Overwrite the results, whose memory a graph would share with other graphs."""
        for tensor in self._own:
            if tensor.is_floating_point():
                tensor.fill_(math.nan)
            elif tensor.dtype is torch.bool:
                tensor.logical_not_()
            else:
                tensor.fill_(torch.iinfo(tensor.dtype).max)


class EagerCapturer:
    """Graphs without CUDA, as strict as those of CUDA; see :class:`GraphCapturer`.

    A replay first spoils the results of all graphs, so that code which relies on more than a
    graph promises fails.
    """

    def __init__(self) -> None:
        self.captures, self.seconds = 0, 0.0
        self._graphs: list[EagerGraph[Any] | LateGraph[Any]] = []

    @torch.inference_mode()
    def capture(
        self, work: Callable[[], T], warm_up: Callable[[], object] | None = None
    ) -> EagerGraph[T] | LateGraph[T]:
        """See :class:`GraphCapturer`."""
        began = time.perf_counter()
        if warm_up is not None:  # nothing else is computed meanwhile, as in a capture
            warm_up()
            return self._late(work)
        first, result = work(), work()
        # Both results are held, so a tensor with an equal address in both belongs to the caller.
        places = {tensor.data_ptr() for tensor in _tensors(first)}
        own = [tensor for tensor in _tensors(result) if tensor.data_ptr() not in places]
        graph = EagerGraph(work, result, own, self._spoil)
        self._graphs.append(graph)
        self._spoil()
        self.captures += 1
        self.seconds += time.perf_counter() - began
        return graph

    def _late(self, work: Callable[[], T]) -> LateGraph[T]:
        graph = LateGraph(work, self._spoil)
        self._graphs.append(graph)
        self.captures += 1
        return graph

    def _spoil(self) -> None:
        for graph in self._graphs:
            graph.spoil()


class LateGraph(Generic[T]):
    """Work that is first done when it is first replayed.

    Args:
        work: the work; it makes all tensors of its result.
        before_replay: called before each replay.
    """

    def __init__(self, work: Callable[[], T], before_replay: Callable[[], None]) -> None:
        self._work, self._before_replay = work, before_replay
        self._made: EagerGraph[T] | None = None

    @property
    def result(self) -> T:
        """See :class:`graphs.CapturedGraph`; there is none before the first replay."""
        assert self._made is not None, "nothing was replayed yet"
        return self._made.result

    @torch.inference_mode()
    def replay(self) -> None:
        """See :class:`graphs.CapturedGraph`."""
        if self._made is None:
            self._before_replay()
            result = self._work()
            self._made = EagerGraph(self._work, result, _tensors(result), self._before_replay)
        else:
            self._made.replay()

    def spoil(self) -> None:
        """See :class:`EagerGraph`."""
        if self._made is not None:
            self._made.spoil()


class LateCapturer(EagerCapturer):
    """A capturer for slow kernels: steps that no plan takes are never computed.

    With the emulator or the interpreter, the graphs of all sizes of a step take several times
    as long as a test's own steps.
    """

    def capture(
        self, work: Callable[[], T], warm_up: Callable[[], object] | None = None
    ) -> LateGraph[T]:
        """See :class:`GraphCapturer`."""
        return self._late(work)


class ForgetfulCapturer(EagerCapturer):
    """A capturer that notes the tensors that the work reads and did not make; it cannot replay."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[int, StorageWeakRef] = {}

    @torch.inference_mode()
    def capture(self, work: Callable[[], Any], warm_up: Callable[[], object] | None = None) -> Any:
        with _Inputs() as inputs:
            work()
        self._read |= inputs.given
        self.captures += 1

    def lost(self) -> int:
        """Count the tensors that a graph would read although they are freed."""
        gc.collect()
        assert self._read, "the work reads nothing"
        return sum(storage.expired() for storage in self._read.values())


class _Inputs(TorchDispatchMode):
    """A mode that notes the inputs of operators that no operator made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
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


def _tensors(result: Any) -> list[Tensor]:
    """All tensors of a result, in order."""
    if result is None:
        return []
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        parts = list(result)
    elif isinstance(result, Mapping):
        parts = list(result.values())
    elif is_dataclass(result):
        parts = [getattr(result, field.name) for field in fields(result)]
    else:
        raise TypeError(f"captured work gives tensors, not {type(result).__name__}")
    return [tensor for part in parts for tensor in _tensors(part)]
