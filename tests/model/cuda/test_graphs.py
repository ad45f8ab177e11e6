"""Captured work: the stand-in is as strict as a CUDA graph, and errors name the memory sizes."""

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from ChatTTS.errors import ConfigError
from ChatTTS.model.cuda.graphs import CudaGraphCapturer, GraphCapturer

from ...support.capture_tools import EagerCapturer, LateCapturer
from ...support.kernel_tools import DEVICE

CAPTURERS = [
    pytest.param(EagerCapturer, id="eager"),
    pytest.param(
        lambda: CudaGraphCapturer(DEVICE, advice="a test"), id="cuda", marks=pytest.mark.gpu
    ),
]


@dataclass(frozen=True)
class Outputs:
    doubled: Tensor
    others: tuple[Tensor | None, dict[str, Tensor]]


@pytest.mark.parametrize("make", CAPTURERS)
def test_a_replay_works_on_what_the_inputs_hold(make: Any) -> None:
    x = torch.zeros(3, device=DEVICE)
    capturer: GraphCapturer = make()
    graph = capturer.capture(lambda: Outputs(2 * x, (None, {"whole": (x + 1).long()})))
    before = graph.result.doubled
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert graph.result.doubled is before
        assert before.tolist() == [2 * value] * 3
        nothing, others = graph.result.others
        assert nothing is None
        assert others["whole"].tolist() == [value + 1] * 3


@pytest.mark.parametrize("make", CAPTURERS)
def test_captured_work_may_change_its_inputs(make: Any) -> None:
    total = torch.zeros(2, device=DEVICE)
    graph = make().capture(lambda: [total.add_(1), total * 10])
    total.fill_(5)
    for expected in (6, 7, 8):
        graph.replay()
        same, scaled = graph.result
        assert same.tolist() == total.tolist() == [expected] * 2
        assert scaled.tolist() == [expected * 10] * 2


@pytest.mark.parametrize("make", CAPTURERS)
def test_captures_are_counted_and_timed(make: Any) -> None:
    capturer = make()
    assert (capturer.captures, capturer.seconds) == (0, 0)
    x = torch.ones(1, device=DEVICE)
    for count in (1, 2):
        capturer.capture(lambda: x + 1)
        assert capturer.captures == count
    assert capturer.seconds > 0


def test_results_are_good_until_the_next_replay() -> None:
    x, flags = torch.ones(2), torch.zeros(2, dtype=torch.bool)
    capturer = EagerCapturer()
    first = capturer.capture(lambda: (x + 1, (x + 1).int(), ~flags, x.add_(0)))
    assert first.result[0].isnan().all()
    second = capturer.capture(lambda: x + 2)
    first.replay()
    assert first.result[0].tolist() == [2, 2]
    second.replay()
    numbers, whole, truth, own = first.result
    assert numbers.isnan().all()
    assert whole.tolist() == [2**31 - 1] * 2
    assert truth.tolist() == [False, False]
    assert own.tolist() == [1, 1]  # an input, which lies in memory of its own
    assert second.result.tolist() == [3, 3]


def test_what_is_captured_late_is_done_at_its_first_replay() -> None:
    """It is as strict from then on."""
    x = torch.ones(2)
    capturer = LateCapturer()
    graphs = [capturer.capture(partial(torch.add, x, more)) for more in (1, 2, 3)]
    assert capturer.captures == 3
    x.fill_(5)
    first, second, third = graphs
    first.replay()
    held = first.result
    assert held.tolist() == [6, 6]
    second.replay()
    assert held.isnan().all()
    x.fill_(7)
    first.replay()
    assert first.result is held
    assert held.tolist() == [8, 8]
    assert second.result.isnan().all()
    with pytest.raises(AssertionError, match="nothing was replayed"):
        _ = third.result


def test_a_graph_has_one_shape() -> None:
    kind = SimpleNamespace(size=2, dtype=torch.float32)
    graph = EagerCapturer().capture(lambda: torch.ones(kind.size, dtype=kind.dtype))
    for size, dtype in ((3, torch.float32), (2, torch.int64)):
        kind.size, kind.dtype = size, dtype
        with pytest.raises(RuntimeError, match="one shape"):
            graph.replay()


def test_results_are_tensors() -> None:
    with pytest.raises(TypeError, match="gives tensors, not int"):
        EagerCapturer().capture(lambda: 5)


class FakeCuda:
    """The part of ``torch.cuda`` that a capturer uses; it notes the calls in their order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.log: list[Any] = []
        self.side = self.stream("side")
        self.devices: list[torch.device] = []
        self.modes: list[bool] = []
        for name in ("device", "stream"):
            patch.setattr(torch.cuda, name, self.context(name))
        for name, value in (
            ("Stream", self.side),
            ("current_stream", self.stream("current")),
            ("CUDAGraph", self.graph()),
            ("mem_get_info", (2**30, 80 * 2**30)),
        ):
            patch.setattr(torch.cuda, name, lambda *_, value=value, **__: value)
        for name in ("synchronize", "graph"):  # they wait for the whole device
            patch.delattr(torch.cuda, name)
        patch.setattr(torch.cuda, "empty_cache", lambda: self.log.append("memory given back"))
        pools = itertools.count()
        patch.setattr(torch.cuda, "graph_pool_handle", lambda: f"pool {next(pools)}")

    def context(self, name: str) -> Any:
        @contextmanager
        def block(*args: Any, **options: Any) -> Iterator[None]:
            self.log.append((name, *options.items()))
            if name == "device":
                self.devices.append(args[0])
            try:
                yield
            finally:
                self.log.append(f"end of {name}")

        return block

    def graph(self) -> Any:
        def end() -> None:
            self.log.append("end of capture")
            if (error := sys.exc_info()[1]) is not None:  # torch raises this one, too
                raise RuntimeError("operation failed due to a previous error") from error

        return SimpleNamespace(
            replay=self.replay,
            capture_begin=lambda **options: self.log.append(("capture", *options.items())),
            capture_end=end,
        )

    def stream(self, name: str) -> Any:
        return SimpleNamespace(
            name=name,
            device=torch.device("cuda:1"),
            wait_stream=lambda other: self.log.append(f"{name} waits for {other.name}"),
        )

    def replay(self) -> None:
        self.log.append("replay")
        self.modes.append(torch.is_inference_mode_enabled())


def test_a_capture_is_warmed_up_on_its_own_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    capturer = CudaGraphCapturer(torch.device("cuda"), advice="buy memory")
    cuda.log.clear()
    cuda.devices.clear()
    graph = capturer.capture(lambda: cuda.log.append("work"))
    graph.replay()
    assert cuda.modes == [True]
    # Not "cuda": in a thread with another current device, that is another device.
    assert cuda.devices == [torch.device("cuda:1")] * 2
    pool, mode = ("pool", "pool 0"), ("capture_error_mode", "thread_local")
    assert cuda.log == [
        ("device",),
        "side waits for current",
        ("stream",),
        "work",
        "work",
        "memory given back",  # a capture takes its own
        ("capture", pool, mode),
        "work",
        "end of capture",
        "end of stream",
        "current waits for side",
        "end of device",
        ("device",),
        "replay",
        "end of device",
    ]


def test_a_capture_beside_others_work_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Giving memory back would wait for the device, and other memory is warmed up."""
    cuda = FakeCuda(monkeypatch)
    capturer = CudaGraphCapturer(torch.device("cuda"), advice="buy memory")
    cuda.log.clear()
    capturer.capture(lambda: cuda.log.append("work"), lambda: cuda.log.append("warm-up"))
    pool, mode = ("pool", "pool 0"), ("capture_error_mode", "thread_local")
    assert cuda.log[2:-3] == [
        ("stream",),
        "warm-up",
        "warm-up",
        ("capture", pool, mode),
        "work",
        "end of capture",
    ]


@pytest.mark.parametrize("text", ["CUDA out of memory.", "CUDA error: out of memory"])
@pytest.mark.parametrize("at", [0, 2])
def test_too_little_memory_is_said_with_the_numbers(
    monkeypatch: pytest.MonkeyPatch, text: str, at: int
) -> None:
    cuda = FakeCuda(monkeypatch)
    capturer = CudaGraphCapturer(torch.device("cuda"), advice="lower max_num_seqs")
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        if len(calls) > at:
            raise RuntimeError(text)

    with pytest.raises(ConfigError, match="1024 MiB of 81920 MiB are free; lower max_num_seqs"):
        capturer.capture(work)
    assert cuda.log[-1] == "end of device"
    assert capturer.captures == 0


def test_other_errors_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCuda(monkeypatch)

    def work() -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted") as caught:
        CudaGraphCapturer(torch.device("cuda"), advice="").capture(work)
    assert not isinstance(caught.value, ConfigError)
