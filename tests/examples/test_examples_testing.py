"""The example of a test of speech: its test as it stands, and as pytest runs it in a project."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ChatTTS.core import Chat
from ChatTTS.testing.regression import SpeechRegression

from ..support.places import ROOT

EXAMPLE = ROOT / "examples/testing"


@pytest.mark.slow
def test_the_example_keeps_its_reference(bundled: Chat, tmp_path: Path) -> None:
    test = EXAMPLE / "test_greeting.py"
    references = EXAMPLE / "references" / test.stem
    regression = SpeechRegression(references, tmp_path, "test_greeting", update=False)
    runpy.run_path(str(test))["test_greeting"](bundled, regression)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "said"), [(1, "1 passed"), (2, "the seed changed from 1 to 2")], ids=["kept", "broken"]
)
def test_pytest_runs_the_example(tmp_path: Path, seed: int, said: str) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
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
