"""The words of a piece as the interfaces send them."""

from __future__ import annotations

from typing import Any

from ..pipeline.results import Word

_DIGITS = 3  # of seconds: frames last 21 ms


def word_fields(word: Word, speed: float) -> dict[str, Any]:
    """Return the fields of a word, for JSON.

    Args:
        speed: tempo of the sound that is sent; the word's own times are those at tempo 1.

    Returns:
        ``word``, ``start`` and ``end`` in seconds of the sound, ``start_character`` and
        ``end_character``, and ``confidence`` from 0 to 1.
    """
    return {
        "word": word.text,
        "start": round(word.start / speed, _DIGITS),
        "end": round(word.end / speed, _DIGITS),
        "start_character": word.start_character,
        "end_character": word.end_character,
        "confidence": word.confidence,
    }
