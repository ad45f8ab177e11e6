"""Read a text of two languages out: each run of a script by its own language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ..tags import TAG
from .mandarin import HAN, pronounce_mandarin
from .phonemes import Pronounced

Reader = Callable[[str], list[Pronounced]]

_OTHER_LETTER = rf"[^\W\d_{HAN}]"
# A run of letters that are not Chinese ends with the last of them and the marks directly behind.
# All else is Mandarin's: marks, quotation marks and digits that are left.
_RUN = re.compile(
    rf"(?P<english>{_OTHER_LETTER}(?:[^{HAN}]*(?:{_OTHER_LETTER}|[.,?!;:…—]))?)|(?:(?!{_OTHER_LETTER}).)+",
    re.DOTALL,
)
# One letter beside Chinese characters is its name; of all letters, only this one is a word too.
_LETTER = re.compile(r"[Aa]")
_NAME_OF_A = "ˈA"


class Pronouncer:
    """Turns normalized texts into phonemes. Threads may share one.

    Args:
        english: reads a text of Latin letters, and marks.
        mandarin: reads a text of Chinese characters, and marks.
    """

    def __init__(self, english: Reader, mandarin: Reader = pronounce_mandarin) -> None:
        self._english = english
        self._mandarin = mandarin

    def __call__(self, text: str, said: Iterable[Pronounced] = ()) -> list[Pronounced]:
        """Return the pieces of ``text`` in order; their places are those of ``text``.

        A control tag, such as ``[laugh]``, is a piece whose phonemes are the tag.

        Args:
            text: as normalized, with control tags.
            said: pronunciations that the caller gives for characters of the text.

        Raises:
            ValueError: two of ``said`` overlap, or one lies outside of the text.
        """
        given = sorted(said, key=lambda piece: piece.start)
        tags = [
            Pronounced(match.start(), match.end(), match[0])
            for match in TAG.finditer(text)
            if not any(piece.start < match.end() and match.start() < piece.end for piece in given)
        ]
        pieces: list[Pronounced] = []
        place = 0
        for fixed in sorted([*given, *tags], key=lambda piece: piece.start):
            if not place <= fixed.start <= fixed.end <= len(text):
                raise ValueError(f"{fixed} overlaps another piece, or lies outside of the text")
            pieces += self._runs(text, place, fixed.start)
            pieces.append(fixed)
            place = fixed.end
        return [*pieces, *self._runs(text, place, len(text))]

    def _runs(self, text: str, start: int, end: int) -> Iterator[Pronounced]:
        for run in _RUN.finditer(text, start, end):
            is_beside = _is_han(text, run.start() - 1) or _is_han(text, run.end())
            if run["english"] is None:
                pieces = self._mandarin(run[0])
            elif is_beside and _LETTER.fullmatch(run[0]):
                pieces = [Pronounced(0, 1, _NAME_OF_A)]
            else:
                pieces = self._english(run[0])
            yield from _moved(pieces, run.start())


def _is_han(text: str, place: int) -> bool:
    return 0 <= place < len(text) and re.match(f"[{HAN}]", text[place]) is not None


def _moved(pieces: Sequence[Pronounced], by: int) -> Iterator[Pronounced]:
    for piece in pieces:
        yield replace(piece, start=piece.start + by, end=piece.end + by)
