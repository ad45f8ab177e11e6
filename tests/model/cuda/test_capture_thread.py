"""The thread that makes the graphs that a start has left."""

import gc
import logging
import threading
import weakref
from types import SimpleNamespace

import pytest

from ChatTTS.model.cuda import capture_thread
from ChatTTS.model.cuda.capture_thread import CaptureThread
from ChatTTS.utils.locks import WakeSignal


class Part:
    """A part with some graphs left to be made.

    Attributes:
        may_go_on: each capture waits for it.
        began: set where one has begun.
        made: graphs so far.
    """

    def __init__(self, left: int, error: Exception | None = None) -> None:
        self.left, self.error, self.made = left, error, 0
        self.began, self.may_go_on = threading.Event(), threading.Event()

    def capture_next(self) -> bool:
        self.began.set()
        assert self.may_go_on.wait(60)
        if self.error is not None:
            raise self.error
        if self.made == self.left:
            return False
        self.made += 1
        return True


def test_all_parts_are_completed(caplog: pytest.LogCaptureFixture) -> None:
    parts = [Part(3), Part(0), Part(2)]
    for part in parts:
        part.may_go_on.set()
    with caplog.at_level(logging.INFO):
        assert CaptureThread(parts).join(60)
    assert [part.made for part in parts] == [3, 0, 2]
    assert "captured 5 more launches" in caplog.text


def test_it_rests_as_long_as_a_capture_took(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 3.5, 5.0, 5.25, 6.0, 7.0])
    rests: list[float] = []

    def rest(signal: WakeSignal, seconds: float) -> bool:
        rests.append(seconds)
        return False

    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(capture_thread, "time", clock)
    monkeypatch.setattr(WakeSignal, "wait", rest)
    part = Part(2)
    part.may_go_on.set()
    assert CaptureThread([part]).join(60)
    assert rests == [2.5, 0.25]


def test_the_interpreter_waits_for_one_capture_at_most() -> None:
    part = Part(1000)
    thread = CaptureThread([part])
    assert part.began.wait(60)
    thread.at_exit()
    part.may_go_on.set()
    assert thread.join(60)
    assert part.made == 1


@pytest.mark.slow
def test_a_part_that_is_dropped_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory was in use when the model was unloaded, so the thread gives it back."""
    freed: list[bool] = []
    part = Part(1000)
    held, began, may_go_on = weakref.ref(part), part.began, part.may_go_on
    monkeypatch.setattr(capture_thread, "give_back_memory", lambda: freed.append(held() is None))
    thread = CaptureThread([part])
    assert began.wait(60)
    del part
    gc.collect()
    may_go_on.set()
    assert thread.join(60)
    assert freed == [True]


def test_an_error_leaves_the_rest_uncaptured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(capture_thread, "give_back_memory", lambda: pytest.fail("all live"))
    parts = [Part(3, RuntimeError("CUDA out of memory")), Part(2)]
    for part in parts:
        part.may_go_on.set()
    assert CaptureThread(parts).join(60)
    assert [part.made for part in parts] == [0, 0]
    assert "are not captured and take longer: CUDA out of memory" in caplog.text
