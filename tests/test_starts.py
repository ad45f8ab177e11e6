"""The imports of scripts and commands that do not speak yet: few, so that they start at once."""

from __future__ import annotations

import pytest

from .test_imports import run

HEAVY = ("torch", "transformers", "numpy", "matplotlib", "einx", "sounddevice", "triton", "httpx")
HELP = """
import contextlib, sys
from ChatTTS.cli import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(None):
    main(["--help"])
"""


@pytest.mark.parametrize("code", ["import ChatTTS, sys", HELP], ids=["import", "help"])
def test_importing_is_cheap(code: str) -> None:
    loaded = run(f"{code}\nprint(*sys.modules)").split()
    assert "ChatTTS" in loaded
    assert [name for name in HEAVY if name in loaded] == []
