"""The stage that trains everything on a GPU at once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ChatTTS.errors import ChatTTSError
from recipes.voice import gpu_session


def test_a_stage_gets_the_time_that_is_left_when_it_asks() -> None:
    budgets = gpu_session._Until(time.time() + 100)
    first = budgets["gpt"].minutes
    time.sleep(0.05)
    second = budgets["gpt"].minutes
    assert first is not None
    assert second is not None
    assert 1.4 < second < first < 100 / 60
    assert gpu_session._Until(time.time() - 5)["gpt"].minutes == pytest.approx(1 / 60)


@pytest.mark.slow
def test_a_stage_that_fails_ends_the_session(tmp_path: Path) -> None:
    other = gpu_session._started("other", time.sleep, 600)
    process = gpu_session._started("broken", os._exit, 3)
    with pytest.raises(ChatTTSError, match="broken ended with status 3"):
        gpu_session._finish(process)
    other.join(30)
    assert other.exitcode is not None
