"""The words of a piece as the interfaces send them."""

from __future__ import annotations

from typing import Any

from ..audio.samples import SAMPLE_RATE
from ..pipeline.results import Word

_DIGITS = 3  # of seconds: frames last 21 ms


def word_fields(
    word: Word, speed: float, *, samples: int = 0, characters: int = 0
) -> dict[str, Any]:
    """Return the fields of a word, for JSON.

    Args:
        speed: tempo of the sound that is sent; the word's own times are those at tempo 1.
        samples: before the word's text, at 24 kHz and tempo 1.
        characters: before the word's text.

    Returns:
        ``word``, ``start`` and ``end`` in seconds of the sound, ``start_character`` and
        ``end_character``, and ``confidence`` from 0 to 1.
    """

    def seconds(sample: int) -> float:
        return round((samples + sample) / SAMPLE_RATE / speed, _DIGITS)

    return {
        "word": word.text,
        "start": seconds(word.start_sample),
        "end": seconds(word.end_sample),
        "start_character": characters + word.start_character,
        "end_character": characters + word.end_character,
        "confidence": word.confidence,
    }
