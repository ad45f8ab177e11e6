"""Fixtures of several modules of this folder."""

from __future__ import annotations

import pytest


@pytest.fixture
def on_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take Triton's interpreter for a GPU."""
    from benchmarks.gpu.rehearsal import take_triton

    take_triton(monkeypatch)
