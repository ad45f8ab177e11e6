"""A loop gives turns while there is work, and loses none that comes while a part comes to rest."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from ChatTTS.utils import device_loop
from ChatTTS.utils.device_loop import DeviceLoop

from ..support.waiting import wait_until

SECONDS = 30.0


class Part:
    """Takes the turns that it is told; then it has nothing left to do.

    Attributes:
        threads: those of its turns.
    """

    def __init__(self, *turns: Callable[[], float | None]) -> None:
        self._turns = list(turns)
        self.threads: list[threading.Thread] = []

    def turn(self) -> float | None:
        self.threads.append(threading.current_thread())
        return self._turns.pop(0)() if self._turns else None


class Endless(Part):
    """Has something to do every millisecond while it ``goes_on``."""

    goes_on = True

    def turn(self) -> float | None:
        return 0.001 if self.goes_on else None


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "test loop"]


@pytest.fixture
def loop() -> DeviceLoop:
    return DeviceLoop("test loop")


def at_rest(loop: DeviceLoop, *parts: Part) -> None:
    for part in parts:
        loop.wait_for_rest(part)
    wait_until(lambda: not loop_threads())


def test_parts_take_turns_in_one_thread_which_ends_with_them(loop: DeviceLoop) -> None:
    short, long = Part(lambda: 0.0), Part(*[lambda: 0.0] * 5)
    loop.begin(long)
    loop.begin(short)
    at_rest(loop, short, long)
    assert len(long.threads) >= 6
    assert len(short.threads) >= 2
    loop.begin(short)
    at_rest(loop, short)
    assert len({*short.threads, *long.threads}) <= 3


def test_the_end_of_the_interpreter_waits_for_the_thread_if_there_is_one(loop: DeviceLoop) -> None:
    loop.at_exit()
    part = Endless()
    loop.begin(part)
    part.goes_on = False
    loop.at_exit()
    assert not loop_threads()


def test_work_that_comes_while_a_part_comes_to_rest_is_not_lost(loop: DeviceLoop) -> None:
    part = Part(lambda: loop.begin(part))
    loop.begin(part)
    at_rest(loop, part)
    assert len(part.threads) == 2


def test_a_pause_ends_when_something_wakes_the_loop(
    loop: DeviceLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_loop, "_POLL_SECONDS", 2 * SECONDS)
    part = Part(lambda: 2 * SECONDS)
    loop.begin(part)
    wait_until(lambda: len(part.threads) == 1)
    loop.wake()
    wait_until(lambda: len(part.threads) == 2)
    at_rest(loop, part)


def test_a_part_waits_for_its_own_rest_alone(loop: DeviceLoop) -> None:
    endless = Endless()
    short = Part(lambda: 0.0)
    loop.begin(endless)
    loop.begin(short)
    loop.wait_for_rest(short)
    assert loop_threads()
    endless.goes_on = False
    at_rest(loop, endless)


def test_a_thread_whose_start_ctrl_c_interrupted_ends(
    loop: DeviceLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(self: threading.Thread) -> None:
        begun.append(self)
        if len(begun) == 1:
            raise KeyboardInterrupt  # before the thread could say that it runs
        start(self)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    endless = Endless()
    with pytest.raises(KeyboardInterrupt):
        loop.begin(endless)
    loop.begin(endless)
    start(begun[0])
    begun[0].join(SECONDS)  # while the other thread goes on
    assert not begun[0].is_alive()
    assert begun[1].is_alive()
    endless.goes_on = False
    at_rest(loop, endless)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_child_has_no_parts_and_may_begin_others(loop: DeviceLoop) -> None:
    endless = Endless()
    loop.begin(endless)
    child = os.fork()
    if not child:
        try:
            part = Part(lambda: 0.0)
            loop.begin(part)
            at_rest(loop, part)  # which it is not while the other part has turns here
        finally:
            os._exit(0 if len(part.threads) == 2 and not loop_threads() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    endless.goes_on = False
    at_rest(loop, endless)
