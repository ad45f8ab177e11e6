"""Fixtures of several modules of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ChatTTS.model.kernels.cpu.library import Team
from ChatTTS.model.velocity.backends.cpu import packing

from .....support.velocity_models import make_team


@pytest.fixture
def team() -> Team:
    """The kernels on one thread."""
    return make_team(1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of packed weights; here small models have files as well."""
    monkeypatch.setattr(packing, "_MIN_CACHED", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "chattts-velocity" / "packed"
