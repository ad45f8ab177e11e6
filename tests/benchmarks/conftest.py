"""Fixtures of several modules of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def restored_threads() -> Iterator[None]:
    """Restore the number of torch's threads, which the benchmarks set."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def on_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take Triton's interpreter for a GPU."""
    from benchmarks.gpu.rehearsal import take_triton

    take_triton(monkeypatch)
