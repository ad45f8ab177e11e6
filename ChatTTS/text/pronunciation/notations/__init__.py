"""Pronunciations that a caller writes, as phonemes of the voices."""

from __future__ import annotations

from .ipa import from_ipa
from .pinyin import from_pinyin
from .x_sampa import from_x_sampa

__all__ = ["from_ipa", "from_pinyin", "from_x_sampa"]
