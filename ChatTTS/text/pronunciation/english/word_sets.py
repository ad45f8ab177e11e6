"""Sets of words, written as one line of text."""

from __future__ import annotations


def word_set(words: str) -> frozenset[str]:
    """Return the words of ``words``, which spaces separate."""
    return frozenset(words.split())
