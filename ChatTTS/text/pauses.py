"""Pauses in a text: ``[pause:1.5s]`` and ``[pause:300ms]`` are silence of exactly that length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..errors import TextError, shown
from .lexicon import Lexicon, LexiconUse

# An hour of silence is a mistake in the text.
LONGEST_PAUSE = 600.0
_MARK = re.compile(r"\[pause:([^\[\]]*)\]")
_SECONDS = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*(ms|s)")


@dataclass(frozen=True)
class PausedPart:
    """A part of a text, and the silence after it.

    Attributes:
        text: with the sayings of the lexicon; may be empty.
        uses: where the lexicon was applied, in characters of the whole text as it was written.
        pause: seconds of silence after it.
    """

    text: str
    uses: tuple[LexiconUse, ...]
    pause: float = 0.0


def seconds(text: str) -> float | None:
    """Return the seconds of ``1.5s`` or ``300ms``; ``None`` for anything else."""
    found = _SECONDS.fullmatch(text.strip())
    if found is None:
        return None
    value = float(found[1]) / (1000 if found[2] == "ms" else 1)
    return value if value <= LONGEST_PAUSE else None


def paused_parts(text: str, lexicon: Lexicon) -> list[PausedPart]:
    """Return the parts between the pauses of a text; the first one may be empty.

    Raises:
        TextError: a mark is no pause.
    """
    return list(_parts(text, lexicon))


def blank_pauses(text: str) -> str:
    """Return ``text`` with spaces in place of pauses, so that all else keeps its place."""
    return _MARK.sub(lambda mark: " " * len(mark[0]), text)


def total_pause(text: str) -> float:
    """Return the seconds of all pauses of a text; raises as :func:`paused_parts`."""
    return sum(map(_seconds, _MARK.finditer(text)))


def _parts(text: str, lexicon: Lexicon) -> Iterator[PausedPart]:
    start = 0
    for mark in _MARK.finditer(text):
        yield _part(text[start : mark.start()], start, lexicon, _seconds(mark))
        start = mark.end()
    yield _part(text[start:], start, lexicon, 0.0)


def _part(text: str, start: int, lexicon: Lexicon, pause: float) -> PausedPart:
    respelled = lexicon.apply(text)
    moved = (
        replace(
            use,
            start_character=use.start_character + start,
            end_character=use.end_character + start,
        )
        for use in respelled.uses
    )
    return PausedPart(respelled.text, tuple(moved), pause)


def _seconds(mark: re.Match[str]) -> float:
    found = seconds(mark[1])
    if found is None:
        raise TextError(
            f"{shown(mark[0])} is not a pause: write [pause:1.5s] or [pause:300ms], at most "
            f"{LONGEST_PAUSE:g} s"
        )
    return found
