"""The counts of the Python calls in the loop of a device."""

from __future__ import annotations

import sys
import threading

import pytest

from benchmarks.serving.turn_calls import LoopCalls
from ChatTTS.utils.device_loop import DeviceLoop


class Part:
    """Has some turns, then nothing left to do."""

    def __init__(self, turns: int) -> None:
        self.left, self.is_over = turns, threading.Event()

    def turn(self) -> float | None:
        self.left -= 1
        if self.left:
            return 0.0
        self.is_over.set()
        return None


def test_only_the_loop_s_own_calls_of_the_package_count() -> None:
    calls, part, loop = LoopCalls(), Part(5), DeviceLoop("counted")
    before = sys.getprofile()
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)  # this thread is no loop
    try:
        loop.begin(part)
        assert part.is_over.wait(60)
        loop.wait_for_rest(part)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    file = "utils/device_loop.py"
    assert calls.of("_take_turns", file) in (5, 6)  # the last one finds nothing
    assert {name for _, name in calls.calls} <= {"at_most", "_take_turns", "wait", "notify"}
    with pytest.raises(KeyError, match="the loop has changed"):
        calls.of("begin", file)
