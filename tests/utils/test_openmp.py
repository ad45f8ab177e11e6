"""A thread that computes now and then keeps no team of OpenMP's threads."""

from __future__ import annotations

import pytest
import torch

from ChatTTS.utils import openmp

from ..support.native_tools import output_of


@pytest.mark.slow
def test_a_team_ends_and_comes_back() -> None:
    if not openmp._libraries():
        pytest.skip("torch does not use GNU's OpenMP here")
    # In a process of its own: other tests have teams as well.
    found = output_of(
        """
import os
import time
import torch
from ChatTTS.utils import openmp

def threads():
    return len(os.listdir("/proc/self/task"))

def left(before):
    # The system lists a thread for a moment after it has ended.
    end = time.monotonic() + 30
    while threads() > before and time.monotonic() < end:
        time.sleep(0.001)
    return threads() - before

torch.set_num_threads(4)
x = torch.ones(1 << 20)
openmp.return_threads()
before = threads()
for _ in range(2):
    expected = x.exp()
    during = threads()
    openmp.return_threads()
    openmp.return_threads()
    print(during - before, left(before), x.exp().equal(expected))
    openmp.return_threads()
""",
        timeout=240,
    )
    assert found.splitlines() == ["3 0 True"] * 2


@pytest.mark.slow
def test_the_loop_of_a_device_that_works_by_itself_makes_no_team() -> None:
    if not openmp._libraries():
        pytest.skip("torch does not use GNU's OpenMP here")
    found = output_of(
        """
import os
import time
from types import SimpleNamespace
import torch
from ChatTTS.model.velocity.async_llm_engine import AsyncLLMEngine

def threads():
    return len(os.listdir("/proc/self/task"))

def settled():
    # The system lists a thread for a moment after it has ended.
    end = time.monotonic() + 30
    while threads() > base and time.monotonic() < end:
        time.sleep(0.001)

class Part:
    def turn(self):
        before = threads()
        x.exp()
        print(threads() - before)

torch.set_num_threads(4)
x = torch.ones(1 << 20)
base = threads()
for depth in (2, 1):
    settled()
    loop = AsyncLLMEngine(SimpleNamespace(executor=SimpleNamespace(depth=depth))).loop
    part = Part()
    loop.begin(part)
    loop.wait_for_rest(part)
print(torch.get_num_threads())
os._exit(0)  # these engines cannot be closed
""",
        timeout=240,
    )
    assert found.splitlines() == ["0", "3", "4"]


def test_without_gnus_openmp_the_setting_of_the_process_changes_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[int] = []
    monkeypatch.setattr(openmp, "_libraries", list)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    for threads in (None, 4):
        with openmp.at_most(threads):
            assert given == []
    with openmp.at_most(2):
        assert given == [2]
    assert given == [2, 4]
