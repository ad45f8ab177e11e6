"""Pauses in a text: ``[pause:1.5s]``, ``[pause:300ms]``, and ``<break time="1.5s"/>`` of SSML.

A pause is silence of exactly that length between the samples of two utterances, which begin and end
with some silence of their own. A break is exactly that silence between the sounds that are heard.
Callers may also want such silence at blank lines, between the paragraphs of a text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..errors import TextError, shown
from .emphasis import Unmarked, blank_emphasis, unmarked
from .lexicon import Lexicon, LexiconUse

# An hour of silence is a mistake in the text.
LONGEST_PAUSE = 600.0
STRENGTHS = {
    "none": 0.0,
    "x-weak": 0.1,
    "weak": 0.25,
    "medium": 0.5,
    "strong": 0.9,
    "x-strong": 1.5,
}
"""Seconds; the pauses of readers aloud at a comma, a full stop and a paragraph."""

_ATTRIBUTE = r"""\s+(?:time|strength)\s*=\s*(?:"[^"<>]*"|'[^'<>]*')"""
_BREAK = rf"<break(?P<break>(?:{_ATTRIBUTE})*)\s*/?>(?:\s{{0,64}}</break\s*>)?"
_PAUSE = r"\[pause:(?P<pause>[^\[\]]*)\]"
MARK = re.compile(rf"{_PAUSE}|{_BREAK}")
"""A pause, or a break as other vendors allow it in plain text."""
PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*|\u2029\s*")
"""A blank line, or the separator of Unicode."""
_MARK_OR_PARAGRAPH = re.compile(rf"{MARK.pattern}|(?P<paragraph>{PARAGRAPH.pattern})")
# Each begins with a fixed word, for which megabytes are searched quickly.
_EITHER = (re.compile(_PAUSE), re.compile(_BREAK))
_FIRST_BREAK = re.compile(rf"\s{{0,64}}{_BREAK}")
# Signs of a short pause, which a break of no length takes away.
_WEAK = (",", ";", ":", "，", "、", "；", "：")
_VALUE = re.compile(r"""(time|strength)\s*=\s*["']([^"']*)["']""")
_SECONDS = re.compile(r"\+?(\d{1,6}(?:\.\d{1,6})?|\.\d{1,6})\s*(ms|s)")


@dataclass(frozen=True)
class PausedPart:
    """A part of a text, and the silence after it.

    Attributes:
        text: with the sayings of the lexicon; may be empty.
        uses: where the lexicon was applied, in characters of the whole text as it was written.
        pause: seconds of silence after it.
        is_exact: whether the pause is all that is silent there, as that of a break.
        ends_paragraph: whether a blank line follows.
    """

    text: str
    uses: tuple[LexiconUse, ...]
    pause: float = 0.0
    is_exact: bool = False
    ends_paragraph: bool = False


def seconds(text: str) -> float | None:
    """Return the seconds of ``1.5s`` or ``300ms``; ``None`` for anything else."""
    found = _SECONDS.fullmatch(text.strip())
    if found is None:
        return None
    value = float(found[1]) / (1000 if found[2] == "ms" else 1)
    return value if value <= LONGEST_PAUSE else None


def break_seconds(time: str | None, strength: str | None) -> float | None:
    """Return the seconds of a break of SSML; ``None`` where a value cannot be read.

    A time goes before a strength; without both, the strength is ``medium``.
    """
    return STRENGTHS.get(strength or "medium") if time is None else seconds(time)


def paused_parts(text: str, lexicon: Lexicon, *, by_paragraphs: bool = False) -> list[PausedPart]:
    """Return the parts between the pauses of a text; the first one may be empty.

    Marks of emphasis are left out. A break without silence ends no part.

    Args:
        by_paragraphs: whether a blank line ends a part, too.

    Raises:
        TextError: a mark is no pause, or no emphasis.
    """
    plain = unmarked(text)
    said = without_empty_breaks(plain.text)
    parts: list[PausedPart] = []
    start = 0
    for mark in (_MARK_OR_PARAGRAPH if by_paragraphs else MARK).finditer(said):
        part = _part(plain, said, start, mark.start(), lexicon)
        if by_paragraphs and mark["paragraph"] is not None:
            parts.append(replace(part, ends_paragraph=True))
        else:
            is_exact = mark["break"] is not None
            parts.append(replace(part, pause=pause_seconds(mark), is_exact=is_exact))
        start = mark.end()
    return [*parts, _part(plain, said, start, len(said), lexicon)]


def break_length(text: str) -> int:
    """Return the characters of the breaks at the beginning of a text, with the space between."""
    length = 0
    while found := _FIRST_BREAK.match(text, length):
        length = found.end()
    return length


def ends_with_break(text: str) -> bool:
    """Return whether nothing but breaks stands behind the last word of a text."""
    text = text.rstrip()
    marks = list(MARK.finditer(text))
    if not marks or marks[-1].end() < len(text) or marks[-1]["break"] is None:
        return False
    return has_length(marks[-1])


def blank_breaks(text: str) -> str:
    """Return ``text`` with spaces in place of breaks and of marks of emphasis around words."""

    def blank(mark: re.Match[str]) -> str:
        return mark[0] if mark["break"] is None else " " * len(mark[0])

    return MARK.sub(blank, blank_emphasis(text))


def blank_marks(text: str) -> str:
    """Return ``text`` with spaces in place of pauses and of marks of emphasis around words.

    So all else keeps its place.
    """
    return MARK.sub(lambda mark: " " * len(mark[0]), blank_emphasis(text))


def total_pause(text: str, paragraph: float | None = None) -> float:
    """Return the seconds of all pauses of a text; raises as :func:`paused_parts`.

    Args:
        paragraph: seconds between two paragraphs with words, where no pause is written.
    """
    total = sum(pause_seconds(mark) for kind in _EITHER for mark in kind.finditer(text))
    if not paragraph:
        return total
    start, written, has_ended, has_words = 0, 0.0, False, False
    ends = [(mark.start(), mark.end(), mark) for mark in _MARK_OR_PARAGRAPH.finditer(text)]
    for begin, end, mark in [*ends, (len(text), len(text), None)]:
        if any(map(str.isalnum, text[start:begin])):
            total += paragraph if has_ended and has_words and not written else 0.0
            written, has_ended, has_words = 0.0, False, True
        if mark is not None and mark["paragraph"] is None:
            written += pause_seconds(mark)
        has_ended |= mark is not None and mark["paragraph"] is not None
        start = end
    return total


def without_empty_breaks(text: str) -> str:
    """Return a text with spaces in place of breaks of no length, and of the comma before each."""

    pieces: list[str] = []
    start = 0
    for mark in MARK.finditer(text):
        said, kept = text[start : mark.start()], mark[0]
        if mark["break"] is not None and not pause_seconds(mark):
            said, kept = without_comma(said), " " * len(kept)
        pieces += (said, kept)
        start = mark.end()
    return "".join([*pieces, text[start:]])


def without_comma(text: str) -> str:
    """Return a text with a space in place of a comma, or the like, at its end."""
    kept = text.rstrip()
    return f"{kept[:-1]} {text[len(kept) :]}" if kept.endswith(_WEAK) else text


def _part(plain: Unmarked, said: str, start: int, end: int, lexicon: Lexicon) -> PausedPart:
    respelled = lexicon.apply(said[start:end])
    moved = (
        replace(
            use,
            start_character=plain.written(use.start_character + start),
            end_character=plain.written(use.end_character - 1 + start) + 1,
        )
        for use in respelled.uses
    )
    return PausedPart(respelled.text, tuple(moved))


def has_length(mark: re.Match[str]) -> bool:
    """Return whether a match of ``MARK`` is silence; also one that cannot be read."""
    try:
        return pause_seconds(mark) > 0
    except TextError:
        return True


def pause_seconds(mark: re.Match[str]) -> float:
    """Return the seconds of a match of ``MARK``, or of one of its two kinds.

    Raises:
        TextError: its value cannot be read.
    """
    values = mark.groupdict()
    if values.get("break") is None:
        found = seconds(values["pause"])
        wanted = "a pause: write [pause:1.5s] or [pause:300ms]"
    else:
        values = dict(_VALUE.findall(values["break"]))
        found = break_seconds(values.get("time"), values.get("strength"))
        wanted = f'a break: write <break time="1.5s"/>, or a strength of {", ".join(STRENGTHS)}'
    if found is None:
        raise TextError(f"{shown(mark[0])} is not {wanted}, at most {LONGEST_PAUSE:g} s")
    return found
