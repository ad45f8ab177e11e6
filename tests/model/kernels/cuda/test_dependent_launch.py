"""Whether launches overlap."""

from __future__ import annotations

import pytest
import torch

from ....support.kernel_tools import DEVICE  # noqa: F401  before any kernel

from ChatTTS.model.kernels.cuda import dependent_launch  # isort: skip


@pytest.mark.parametrize(
    ("capability", "triton", "setting", "expected"),
    [
        (90, (3, 5), None, True),
        (120, (3, 7), "1", True),
        (90, (3, 5), "0", False),
        (89, (3, 5), None, False),
        (90, (3, 4), None, False),
    ],
)
def test_launches_overlap_where_they_can_and_may(
    monkeypatch: pytest.MonkeyPatch,
    capability: int,
    triton: tuple[int, int],
    setting: str | None,
    expected: bool,
) -> None:
    monkeypatch.setattr(dependent_launch, "capability", lambda x: capability)
    monkeypatch.setattr(dependent_launch, "TRITON", triton)
    monkeypatch.delenv(dependent_launch.OVERLAP_VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(dependent_launch.OVERLAP_VARIABLE, setting)
    assert dependent_launch.overlaps(torch.zeros(1)) is expected
