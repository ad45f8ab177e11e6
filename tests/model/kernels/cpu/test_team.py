"""The team of threads, as a program in C++ without Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parents[3] / "native_threads.cpp"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_team_does_every_task_once_while_threads_are_kept_away(tmp_path: Path) -> None:
    program = tmp_path / "threads"
    flags = ["-std=c++17", "-O1", "-pthread", "-march=native"]
    subprocess.run(["g++", *flags, str(_SOURCE), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
