"""Pronunciation: from normalized text to the phonemes that a voice reads."""

from __future__ import annotations

from .mandarin import pronounce_mandarin
from .notations import from_ipa, from_pinyin, from_x_sampa
from .phonemes import Pronounced, joined
from .pronouncer import Pronouncer

__all__ = [
    "Pronounced",
    "Pronouncer",
    "from_ipa",
    "from_pinyin",
    "from_x_sampa",
    "joined",
    "pronounce_mandarin",
]
