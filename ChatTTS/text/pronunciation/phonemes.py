"""Phonemes with their place in a text, and the line that a voice reads.

The alphabet is the one of Kokoro-82M, the teacher of the voices: 114 symbols, among them the marks
in ``MARKS`` and the space.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_OPENING = "(“"
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
    return "".join(" " * is_apart + piece.phonemes for piece, is_apart in spaced(pieces))


def spaced(pieces: Iterable[Pronounced]) -> Iterator[tuple[Pronounced, bool]]:
    """Yield the pieces that have a sound, and whether a space stands before each of them."""
    is_apart = False  # whether a word here is parted from what is before it
    is_quoted = False
    for piece in pieces:
        mark = piece.phonemes
        if not mark:
            continue
        if mark == '"':
            is_quoted = not is_quoted
        is_opening = mark in _OPENING or (mark == '"' and is_quoted)
        is_closing = mark in MARKS and not is_opening
        yield piece, is_apart and not is_closing
        is_apart = is_closing or not (is_opening or piece.joins_next)
