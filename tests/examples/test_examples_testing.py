"""The example of a test of speech, as the project that has it runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.places import ROOT


@pytest.mark.parametrize(
    ("seed", "said"), [(1, "1 passed"), (2, "the seed changed from 1 to 2")], ids=["kept", "broken"]
)
@pytest.mark.slow_for("broken")
def test_the_example_notices_another_seed(tmp_path: Path, seed: int, said: str) -> None:
    shutil.copytree(ROOT / "examples/testing", tmp_path, dirs_exist_ok=True)
    test = tmp_path / "test_greeting.py"
    text = test.read_text(encoding="utf-8")
    assert '"clara", 1\n' in text
    test.write_text(text.replace('"clara", 1\n', f'"clara", {seed}\n'), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "ChatTTS.pytest_plugin", test.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == (said != "1 passed"), ended.stdout
    assert said in ended.stdout
