"""Call sequences of public programs, as scripts that know nothing of this package."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from ChatTTS.checkpoints import assets

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_calls_of_a_program_work(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locate = assets.locate

    def bundled(*_: Any, **__: Any) -> Any:
        """Find the bundled voice where a program finds the published checkpoint."""
        return locate("bundled")

    monkeypatch.setattr(assets, "locate", bundled)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), run_name="__main__")
