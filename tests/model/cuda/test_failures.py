"""A device that hangs, fails for good or has no memory: what is told, and that waits end."""

from __future__ import annotations

import math
import os
import sys
import threading
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from ChatTTS.cli import main
from ChatTTS.errors import ConfigError, DeviceLostError, EngineDeadError
from ChatTTS.model.cuda import failures, graphs
from ChatTTS.model.cuda.failures import (
    PATIENCE_VARIABLE,
    is_lasting,
    is_out_of_memory,
    patience,
    wait_for,
)
from ChatTTS.model.cuda.graphs import give_back_memory


@pytest.fixture(autouse=True)
def _nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "LOST", threading.Event())


class Clock:
    """A clock that only moves while the code under test sleeps, at least by a microsecond.

    Attributes:
        now: seconds.
        sleeps: all that there were.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []
        monkeypatch.setattr(
            failures, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        )

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += max(seconds, 1e-6)


class Work:
    """Work that a device does in so many seconds of a clock, and its stream."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._end = clock, clock.now + seconds

    def record_event(self) -> Work:
        return self

    def query(self) -> bool:
        return self._clock.now >= self._end


def test_work_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    wait_for(Work(clock, 0.01), 1.0)
    assert 0.01 <= clock.now < 0.011


def test_what_is_nearly_done_is_waited_for_without_a_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    wait_for(Work(clock, failures._AWAKE_SECONDS / 2), 1.0)
    assert set(clock.sleeps) == {0}
    wait_for(Work(clock, 0.01), 1.0)
    assert set(clock.sleeps[-100:]) == {failures._POLL_SECONDS}


def test_a_device_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(DeviceLostError, match=r"has not answered for 0\.5 s") as caught:
        wait_for(Work(clock, math.inf), 0.5)
    assert 0.5 < clock.now < 0.51
    assert failures.LOST.is_set()
    assert isinstance(caught.value, EngineDeadError)  # for which a service fails


def test_a_process_that_was_stopped_looks_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(clock, "sleep", lambda seconds: None)
    answers = iter([False, True])

    def query() -> bool:
        clock.now += 100.0
        return next(answers)

    wait_for(SimpleNamespace(query=query), 0.5)


def test_an_error_of_the_work_is_passed_on() -> None:
    def query() -> bool:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal"):
        wait_for(SimpleNamespace(query=query), 1.0)


def test_what_a_device_computes_is_copied_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    values = SimpleNamespace(is_cuda=True, device=0, cpu=lambda: clock.now)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Work(clock, 0.25))
    assert 0.25 <= failures.on_host(cast("torch.Tensor", values)) < 0.26
    monkeypatch.setenv(PATIENCE_VARIABLE, "0.5")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Work(clock, math.inf))
    with pytest.raises(DeviceLostError):
        failures.on_host(cast("torch.Tensor", values))
    assert torch.equal(failures.on_host(torch.ones(2)), torch.ones(2))


def test_a_command_that_lost_its_device_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    assert main(["cache"]) == 0
    assert not ended
    failures.LOST.set()
    main(["cache"])
    assert ended == [0]
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(AttributeError):  # the true _exit would not return
        failures.leave_if_lost(70)
    assert ended == [0, 70]


def test_patience_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PATIENCE_VARIABLE, raising=False)
    assert patience() == 60
    for given, seconds in (("", 60), ("2.5", 2.5), ("0", math.inf), (" 7 ", 7)):
        monkeypatch.setenv(PATIENCE_VARIABLE, given)
        assert patience() == seconds
    for bad in ("-1", "nan", "soon"):
        monkeypatch.setenv(PATIENCE_VARIABLE, bad)
        with pytest.raises(ConfigError, match=PATIENCE_VARIABLE):
            patience()


@pytest.mark.parametrize(
    ("text", "lasts", "is_memory"),
    [
        ("CUDA error: an illegal memory access was encountered\nCompile with ...", True, False),
        ("CUDA error: device-side assert triggered", True, False),
        ("Triton Error [CUDA]: misaligned address", True, False),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`", True, False),
        ("CUDA out of memory. Tried to allocate 2.00 GiB.", False, True),
        ("CUDA error: out of memory", False, True),
        ("Triton Error [CUDA]: out of memory", False, True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", False, True),
        ("the size of tensor a (3) must match the size of tensor b (4)", False, False),
    ],
)
def test_errors_after_which_the_process_has_no_device(
    text: str, lasts: bool, is_memory: bool
) -> None:
    error = RuntimeError("something on top")
    error.__cause__ = RuntimeError(text)
    assert (is_lasting(error), is_out_of_memory(error)) == (lasts, is_memory)
    assert is_lasting(DeviceLostError("the GPU has not answered"))


def test_memory_is_given_back_where_cuda_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not during a capture of another thread, and not where CUDA was never started."""
    held: list[bool] = []
    lock = graphs.CudaGraphCapturer.capturing
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: held.append(lock.locked()))
    give_back_memory()
    assert held == []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    give_back_memory()
    assert held == [True]
    failures.LOST.set()  # it would wait for ever
    give_back_memory()
    assert held == [True]
