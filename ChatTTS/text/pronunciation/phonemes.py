"""Phonemes with their place in a text, and the line that a voice reads.

The alphabet is the one of Kokoro-82M, the teacher of the voices: 114 symbols, among them the marks
in ``MARKS`` and the space.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OPENING = "(“"
MARKS = frozenset(';:,.!?—…"()“”')


@dataclass(frozen=True)
class Pronounced:
    """Characters of a text and how they are said.

    Attributes:
        start, end: the characters [start, end) of the text: a word, a syllable of a word, or a
            mark.
        phonemes: of a word or syllable; of a mark, the mark itself. Empty for what has no sound.
        joins_next: whether the next piece belongs to the same word, as between the syllables of a
            Mandarin word, so that no space stands between them.
    """

    start: int
    end: int
    phonemes: str
    joins_next: bool = False


def joined(pieces: Iterable[Pronounced]) -> str:
    """Return the phonemes of a text on one line.

    One space stands between words. A mark stands directly behind its word and has a space behind
    it; an opening one has it before.
    """
    line = ""
    space = ""
    is_quoted = False
    for piece in pieces:
        mark = piece.phonemes
        if not mark:
            continue
        if mark == '"':
            is_quoted = not is_quoted
        is_opening = mark in OPENING or (mark == '"' and is_quoted)
        if mark in MARKS and not is_opening:
            line += mark
            space = " "
        else:
            line += space + mark
            space = "" if is_opening or piece.joins_next else " "
    return line
