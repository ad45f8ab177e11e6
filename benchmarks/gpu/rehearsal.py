"""Run the parts of the GPU benchmark on a CPU, so that their own logic can be tested anywhere.

The engine is built as on CUDA, but with the torch references of the kernels, since Triton's
interpreter takes seconds for a step. Kernels that are checked run in the interpreter; bits, which
it does not keep, in the emulator of ``tests/ptx``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


# Of the GPU that is emulated.
_CAPABILITY = 90


def rehearse(module: str) -> None:
    """Use the CPU until the process ends; Triton must not have been imported yet.

    Args:
        module: of the part.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if module == "bits":
        os.environ.pop("TRITON_INTERPRET", None)
        from tests.ptx.launches import Emulation

        Emulation(_CAPABILITY, races=False, order=None).install()
        return
    os.environ["TRITON_INTERPRET"] = "1"
    import pytest

    take_triton(pytest.MonkeyPatch())


def take_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the engine take the CUDA path on a CPU, until ``monkeypatch`` is undone."""
    from ChatTTS.model.velocity.model_loader import ModelLoader
    from tests.support.torch_references import use_torch_references

    monkeypatch.setattr(ModelLoader, "_team", lambda loader: None)
    monkeypatch.setattr(ModelLoader, "_has_triton", lambda *_: True)
    use_torch_references(monkeypatch)
