"""Emphasis in a text: ``[emphasis:strong|really]`` marks words that are spoken with more weight."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from ..errors import TextError, shown

STRONG, MODERATE, NONE, REDUCED = "strong", "moderate", "none", "reduced"
LEVELS = (STRONG, MODERATE, NONE, REDUCED)
"""The levels of SSML 1.1. ``none`` speaks the words as they would be anyway."""

MARK = re.compile(r"\[emphasis:([^\[\]|]*)\|((?:[^\[\]]|\[[^\[\]]*\])*)\]")
# The words of a mark: other marks, and what ends a sentence, stay outside of it.
_BRACKETS = re.compile(r"(\[[^\[\]]*\])")
_SOUNDS = re.compile(r"\[(?:ipa|x-sampa|pinyin):")
_STOPS = ",;:!?.…，。！？；：、"
_WORDS = re.compile(rf"(?:[^\s\[\]{_STOPS}]|\.(?=\w))(?:[^\[\]{_STOPS}]|[.,:](?=\w))*")


@dataclass(frozen=True)
class Emphasis:
    """Characters of a text that are emphasised.

    Attributes:
        start, end: in the text as it was written.
        level: ``strong``, ``moderate`` or ``reduced``.
    """

    start: int
    end: int
    level: str


@dataclass(frozen=True)
class Unmarked:
    """A text without its marks of emphasis.

    Attributes:
        text: the text that is spoken.
        emphases: in order, without those of the level ``none``.
        pieces: where each piece between the marks begins, in ``text`` and as it was written.
    """

    text: str
    emphases: tuple[Emphasis, ...]
    pieces: tuple[tuple[int, int], ...]

    def written(self, character: int) -> int:
        """Return the place in the text as it was written of one in ``text``."""
        piece = bisect_right(self.pieces, character, key=lambda piece: piece[0]) - 1
        start, written = self.pieces[piece]
        return written + character - start


def has_emphasis(text: str) -> bool:
    """Return whether a text has a mark of emphasis that changes its sound."""
    return any(mark[1].strip().lower() != NONE for mark in MARK.finditer(text))


def unmarked(text: str) -> Unmarked:
    """Return a text without its marks of emphasis, and what they say.

    Raises:
        TextError: a mark has an unknown level.
    """
    parts: list[str] = []
    emphases: list[Emphasis] = []
    pieces = [(0, 0)]
    length = place = 0

    def add(start: int, end: int) -> None:
        nonlocal length
        pieces.append((length, start))
        parts.append(text[start:end])
        length += end - start

    for mark in MARK.finditer(text):
        level = mark[1].strip().lower()
        if level not in LEVELS:
            raise TextError(
                f"{shown(mark[0])} has no level of emphasis: write [emphasis:strong|words], or "
                f"{', '.join(LEVELS[1:])} in place of strong"
            )
        add(place, mark.start())
        add(mark.start(2), mark.end(2))
        place = mark.end()
        if level != NONE:
            emphases.append(Emphasis(mark.start(2), mark.end(2), level))
    add(place, len(text))
    return Unmarked("".join(parts), tuple(emphases), tuple(pieces[1:]))


def without_emphasis(text: str) -> str:
    """Return a text with the words of marks of emphasis in place of the marks."""
    return MARK.sub(lambda mark: mark[2], text)


def blank_emphasis(text: str) -> str:
    """Return ``text`` with spaces around the words of marks, so that all keeps its place."""
    return MARK.sub(lambda mark: f"{' ' * (mark.start(2) - mark.start())}{mark[2]} ", text)


def emphasised(text: str, level: str) -> str:
    """Return a text whose words and pronunciations are marked; other marks in it stay outside."""
    pieces = _BRACKETS.split(text)
    pieces[::2] = [_WORDS.sub(lambda words: _mark(words[0], level), piece) for piece in pieces[::2]]
    pieces[1::2] = [_mark(p, level) if _SOUNDS.match(p) else p for p in pieces[1::2]]
    return "".join(pieces)


def _mark(words: str, level: str) -> str:
    kept = words.rstrip()
    return f"[emphasis:{level}|{kept}]{words[len(kept) :]}"
