"""The torch twins in place of the kernels: what is around the kernels is tested without waiting
for Triton's interpreter, and each kernel is held against its twin in tests of its own."""

from __future__ import annotations

import pytest

from .kernel_tools import DEVICE  # noqa: F401  before any kernel

from ChatTTS.model.cuda import layers, te_llama  # isort: skip
from ChatTTS.model.cuda.kernels import (  # isort: skip
    attention,
    embedding,
    norm,
    prefill,
    products,
    rotary,
    sampling,
    swiglu,
)
from ChatTTS.model.velocity.cuda import decode, llama, sampler  # isort: skip


def use_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, until the test ends."""
    kernels = {
        "attend_chunks": prefill,
        "attend_rows": attention,
        "draw_codes": sampling,
        "embed_rows": embedding,
        "product": products,
        "rms_norm": norm,
        "rotate_and_store": rotary,
        "swiglu": swiglu,
    }
    for user in (layers, te_llama, decode, llama, sampler):
        for name, home in kernels.items():
            if hasattr(user, name):
                monkeypatch.setattr(user, name, getattr(home, f"{name}_torch"))
