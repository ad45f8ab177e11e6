"""The parts of the GPU benchmark on a CPU: their own logic can be tried anywhere.

What decodes is built as it is on CUDA, with the torch twins of the kernels in its place, since
Triton's interpreter takes seconds over a step.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def rehearse() -> None:
    """From now on, until the process ends; nothing may have imported Triton yet."""
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import pytest

    take_triton(pytest.MonkeyPatch())


def take_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the engine take the way of CUDA on a CPU, until ``monkeypatch`` is undone."""
    from ChatTTS.model.velocity.model_loader import ModelLoader
    from tests.support.cuda_twins import use_twins

    monkeypatch.setattr(ModelLoader, "_team", lambda loader: None)
    monkeypatch.setattr(ModelLoader, "_has_triton", lambda loader: True)
    use_twins(monkeypatch)
