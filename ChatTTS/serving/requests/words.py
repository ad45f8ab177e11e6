"""Words, faults and subtitles as the interfaces send them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from ...audio.subtitles import make_cues
from ...pipeline.results import Fault, Word
from ...text.lexicon import LexiconUse

DIGITS = 3
"""Of the seconds that interfaces send: frames last 21 ms."""


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
        "start": round(word.start / speed, DIGITS),
        "end": round(word.end / speed, DIGITS),
        "start_character": word.start_character,
        "end_character": word.end_character,
        "confidence": word.confidence,
    }


def fault_fields(fault: Fault, speed: float) -> dict[str, Any]:
    """Return the fields of a fault, for JSON.

    Args:
        speed: tempo of the sound that is sent; the fault's own times are those at tempo 1.

    Returns:
        ``kind``, ``text``, ``words`` (how many), ``start`` and ``end`` in seconds of the sound,
        ``start_character`` and ``end_character``.
    """
    return {
        "kind": fault.kind,
        "text": fault.text,
        "words": fault.words,
        "start": round(fault.start / speed, DIGITS),
        "end": round(fault.end / speed, DIGITS),
        "start_character": fault.start_character,
        "end_character": fault.end_character,
    }


def lexicon_fields(use: LexiconUse) -> dict[str, Any]:
    """Return the fields of a place where a lexicon was applied, for JSON."""
    return asdict(use)


def cue_fields(words: Iterable[Word], text: str, speed: float) -> list[dict[str, Any]]:
    """Return the subtitles of a text, for JSON; see :func:`ChatTTS.audio.make_cues`.

    Args:
        words: all words of the text.
        text: as the client sent it.
        speed: tempo of the sound that is sent.

    Returns:
        For each subtitle ``start`` and ``end`` in seconds of the sound, and ``lines``.
    """
    timed = [replace(word, start=word.start / speed, end=word.end / speed) for word in words]
    return [
        {
            "start": round(cue.start, DIGITS),
            "end": round(cue.end, DIGITS),
            "lines": list(cue.lines),
        }
        for cue in make_cues(timed, text)
    ]
