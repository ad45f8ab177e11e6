"""CUDA graphs: work that is captured once and replayed many times, in one launch."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Generic, Protocol, TypeVar

import torch

from ...errors import ConfigError
from ...utils.locks import new_lock
from . import failures
from .failures import is_out_of_memory

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# How often work is done before it is captured: libraries choose their kernels and load them then.
_WARM_UPS = 2
_MIB = 2**20
# The priority of the engine's streams. Work on streams of priority 0, such as the audio decoder's,
# lets the engine's kernels go first: every listener waits for the engine.
ENGINE_PRIORITY = -1


class CapturedGraph(Protocol[T_co]):
    """Captured work that can be replayed."""

    @property
    def result(self) -> T_co:
        """The work's result: the same tensors each time.

        They hold the values of the latest :meth:`replay` until any graph of the same capturer
        is replayed, since all share their memory. Before the first replay they have no values.
        """
        ...

    def replay(self) -> None:
        """Do the work again, on the present values of its inputs."""
        ...


class GraphCapturer(Protocol):
    """Captures work of fixed shapes on fixed addresses.

    A capturer and its graphs share memory, so one thread and one stream at a time may use them.

    Attributes:
        captures: graphs made so far.
        seconds: that making them took.
    """

    captures: int
    seconds: float

    def capture(
        self, work: Callable[[], T], warm_up: Callable[[], object] | None = None
    ) -> CapturedGraph[T]:
        """Capture what ``work`` does on the device.

        The work runs a few times meanwhile, so nothing that it changes may be needed yet. Its
        result is a tensor, ``None``, or a tuple, list, mapping or dataclass of results. Tensors
        that it reads and did not make must live as long as the graph, which does not hold them.

        Args:
            work: what is captured.
            warm_up: does as much as ``work`` and changes nothing that others use. It runs in place
                of ``work``, so another thread may replay earlier graphs meanwhile.

        Raises:
            ConfigError: the device has not enough memory; the message has the numbers.
        """
        ...


class CapturedCudaGraph(Generic[T]):
    """A captured CUDA graph, replayed on the current stream of its device.

    Attributes:
        result: see :class:`CapturedGraph`.
    """

    def __init__(self, graph: torch.cuda.CUDAGraph, device: torch.device, result: T) -> None:
        self._graph, self._device = graph, device
        self.result = result

    # As it was captured: some releases of torch write the seed of their own generator.
    @torch.inference_mode()
    def replay(self) -> None:
        """See :class:`CapturedGraph`."""
        with torch.cuda.device(self._device):
            self._graph.replay()


class CudaGraphCapturer:
    """CUDA graphs in one memory pool; see :class:`GraphCapturer`.

    Args:
        device: where the work runs.
        advice: what to change, for a message about too little memory.
        priority: of the captured kernels; they keep that of the stream on which they are captured.
            A lower number goes first.
    """

    # torch and CUDA allow one capture at a time in a process.
    capturing: ClassVar[threading.Lock] = new_lock()

    def __init__(self, device: torch.device, *, advice: str, priority: int = 0) -> None:
        self.captures, self.seconds = 0, 0.0
        self._advice = advice
        self._has_captured = False
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream(device, priority=priority)
            self._pool = torch.cuda.graph_pool_handle()
        # With its index: a thread that captures later may have another current device.
        self._device = self._stream.device

    @torch.inference_mode()
    def capture(
        self, work: Callable[[], T], warm_up: Callable[[], object] | None = None
    ) -> CapturedCudaGraph[T]:
        """See :class:`GraphCapturer`."""
        began = time.perf_counter()
        with self.capturing, torch.cuda.device(self._device), self._explained():
            current = torch.cuda.current_stream(self._device)
            self._stream.wait_stream(current)
            graph = torch.cuda.CUDAGraph()
            # This block restores the current stream, which a failed capture does not.
            with torch.cuda.stream(self._stream):
                for _ in range(_WARM_UPS):
                    (warm_up or work)()
                # The capture takes further memory. What the first and largest work took before
                # must not stay allocated beside it.
                if not self._has_captured:
                    gc.collect()
                if warm_up is None:  # else another thread's work would be waited for
                    torch.cuda.empty_cache()
                # Not torch.cuda.graph(), which waits for the whole device. Other threads may go on
                # allocating memory.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    result = work()
                finally:
                    graph.capture_end()
            current.wait_stream(self._stream)
        self._has_captured = True
        self.captures += 1
        self.seconds += time.perf_counter() - began
        return CapturedCudaGraph(graph, self._device, result)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors about too little memory into one that has the numbers."""
        try:
            yield
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            free, total = (size // _MIB for size in torch.cuda.mem_get_info())
            raise ConfigError(
                f"{self._device} ran out of memory while a graph was captured: {free} MiB of "
                f"{total} MiB are free; {self._advice}"
            ) from error


def give_back_memory() -> None:
    """Give GPU memory that nothing uses any more back to the system, if CUDA has been started.

    torch keeps freed memory. It does not count as free where the next cache is sized, and other
    processes cannot take it. After the loss of a GPU this does nothing.
    """
    if torch.cuda.is_initialized() and not failures.LOST.is_set():
        with CudaGraphCapturer.capturing:
            gc.collect()  # what is in a cycle is not freed before
            torch.cuda.empty_cache()
