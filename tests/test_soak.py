"""Use threads, streams, interrupts, Ctrl-C, forks, loading and unloading at once for a while."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from .support.places import DATA, ROOT

SECONDS = 20


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("engine", ["standard", "velocity"])
def test_soak(engine: str) -> None:
    command = ["-m", "tests.support.soak_child", str(DATA / "model-a"), engine, "1", str(SECONDS)]
    soak = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, said = soak.communicate(timeout=SECONDS + 300)
    finally:
        if soak.poll() is None:
            os.killpg(soak.pid, signal.SIGKILL)  # with its children, which may hang as well
    assert soak.returncode == 0, said
    *_, operations = re.findall(r"\d+", printed)
    assert int(operations) > 20
