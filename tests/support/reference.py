"""The packages that this one's own modules are compared with, where they are installed."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from benchmarks.common.published import import_torchaudio


def torchaudio() -> ModuleType:
    """Return torchaudio; without it, skip the test."""
    try:
        import_torchaudio()
    except ModuleNotFoundError:
        pytest.skip("torchaudio, the reference for mel spectrograms and vocos, is not installed")
    return importlib.import_module("torchaudio")


def vocos() -> ModuleType:
    """Return vocos; without it, skip the test."""
    torchaudio()  # vocos imports it
    try:
        return importlib.import_module("vocos")
    except ModuleNotFoundError:
        pytest.skip("vocos, the reference for the vocoder, is not installed")
