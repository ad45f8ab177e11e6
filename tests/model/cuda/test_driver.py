"""Waiting for a device in C: other threads run meanwhile, and Python asks twice only.

``atoi`` stands for the driver's query: the text at the handle is what it answers.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from typing import Any

import pytest

from ChatTTS.errors import DeviceLostError
from ChatTTS.model.cuda import failures
from ChatTTS.model.cuda.driver import DriverWait, driver_wait, wait_by
from ChatTTS.model.cuda.failures import wait_for
from ChatTTS.model.kernels.cpu import build
from ChatTTS.model.kernels.cpu.build import BuildError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs the functions of libc")

PENDING, DONE, FAILED = b"600", b"0", b"700"


class Event:
    """An event whose state is the text that it holds.

    Attributes:
        text: what the driver answers.
        asked: how often Python has asked.
        believes: whether Python's question is answered as the driver answers.
    """

    def __init__(self, text: bytes = PENDING, *, believes: bool = True) -> None:
        self.text, self.asked, self.believes = ctypes.create_string_buffer(text, 8), 0, believes

    @property
    def cuda_event(self) -> int:
        return ctypes.addressof(self.text)

    def query(self) -> bool:
        self.asked += 1
        if self.text.value == FAILED:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return self.text.value == DONE and self.believes


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> DriverWait:
    try:
        found = wait_by(ctypes.CDLL(None).atoi, int(PENDING))
    except BuildError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(failures, "driver_wait", lambda: found)
    monkeypatch.setattr(failures, "LOST", threading.Event())
    return found


# PR_SET_TIMERSLACK and PR_GET_TIMERSLACK of Linux.
_SET_SLACK, _GET_SLACK = 29, 30


def end(event: Event, text: bytes) -> None:
    event.text.value = text


@pytest.mark.parametrize("text", [DONE, FAILED])
def test_other_threads_run_while_c_waits(wait: DriverWait, text: bytes) -> None:
    """No thread is made to give the lock up meanwhile, and only the other one ends the call."""
    event, may_end = Event(), threading.Event()

    def end_it() -> None:
        may_end.wait()
        end(event, text)

    other = threading.Thread(target=end_it, daemon=True)
    other.start()
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        may_end.set()
        assert event.text.value == PENDING
        assert wait(event.cuda_event, 20.0, 0.0, 1e-4)
    finally:
        sys.setswitchinterval(usual)
    other.join()


def test_python_asks_before_and_after(wait: DriverWait, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_TURN_SECONDS", 60.0)
    event = Event()
    timer = threading.Timer(0.05, end, (event, DONE))
    timer.start()
    wait_for(event, 60.0)
    timer.join()
    assert event.asked == 2


def test_an_error_of_the_work_is_raised_by_torch(wait: DriverWait) -> None:
    event = Event()
    timer = threading.Timer(0.05, end, (event, FAILED))
    timer.start()
    with pytest.raises(RuntimeError, match="illegal"):
        wait_for(event, 60.0)
    timer.join()


def test_work_that_never_ends_is_given_up(
    wait: DriverWait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls are short, so that Ctrl-C has an effect, and are not longer than the limit."""
    turns: list[float] = []

    def noting(handle: int, seconds: float, awake: float, poll: float) -> bool:
        turns.append(seconds)
        return wait(handle, seconds, awake, poll)

    monkeypatch.setattr(failures, "driver_wait", lambda: noting)
    monkeypatch.setattr(failures, "_TURN_SECONDS", 0.02)
    with pytest.raises(DeviceLostError, match=r"0\.05 s"):
        wait_for(Event(), 0.05)
    assert failures.LOST.is_set()
    assert turns[0] == 0.02
    assert all(0 < turn <= 0.02 for turn in turns)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a slack of timers")
def test_a_wait_with_sleeps_leaves_the_timers_of_its_thread_alone(wait: DriverWait) -> None:
    system = ctypes.CDLL(None)
    assert system.prctl(_SET_SLACK, 7000) == 0
    try:
        assert not wait(Event().cuda_event, 1e-3, 0.0, 1e-5)
        assert system.prctl(_GET_SLACK) == 7000
    finally:
        system.prctl(_SET_SLACK, 0)  # the default


def test_a_limit_of_nothing_looks_once_more(wait: DriverWait) -> None:
    assert not wait(Event().cuda_event, -1.0, 0.0, 0.0)
    assert wait(Event(DONE).cuda_event, -1.0, 0.0, 0.0)
    assert wait(Event(FAILED).cuda_event, math.inf, 0.0, 0.0)


def test_an_answer_that_torch_does_not_share_is_not_asked_for_again(
    wait: DriverWait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a thread without a context: Python goes on asking, with its pauses."""
    asked: list[int] = []

    def counting(handle: int, *seconds: float) -> bool:
        asked.append(handle)
        return wait(handle, *seconds)

    monkeypatch.setattr(failures, "driver_wait", lambda: counting)
    event = Event(DONE, believes=False)
    with pytest.raises(DeviceLostError):
        wait_for(event, 0.02)
    assert len(asked) == 1
    assert event.asked > 2


def test_a_machine_without_a_driver_asks_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", none)
    assert driver_wait.__wrapped__() is None
    monkeypatch.setattr(failures, "driver_wait", lambda: None)
    event = Event()
    timer = threading.Timer(0.01, end, (event, DONE))
    timer.start()
    wait_for(event, 60.0)
    timer.join()


def test_what_waits_is_compiled_alone(wait: DriverWait) -> None:
    """A GPU's machine has no use for the CPU kernels, whose compiling takes a minute."""
    found = build.library(build.WAIT)
    assert b"chattts_wait_for" in found.code
    assert found.prebuilt or b"chattts_advance" not in found.code


def test_the_kernels_have_what_waits(wait: DriverWait) -> None:
    """So a wheel, which brings them, needs no compiler for it."""
    assert b"chattts_wait_for" in build.library().code
