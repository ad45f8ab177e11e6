"""Cut a flow of paragraphs into chapters: by the entries of a table of contents, or by headings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LONGEST_TITLE = 200  # to which others are added


@dataclass(frozen=True)
class Start:
    """The beginning of a chapter.

    Attributes:
        position: of its first paragraph in the flow.
        title: as the contents have it.
        depth: of the entry in nested contents, from 0.
    """

    position: int
    title: str
    depth: int = 0


@dataclass(frozen=True)
class Heading:
    """A heading in the flow; ``level`` is 1 for the highest one."""

    position: int
    title: str
    level: int


def joined_starts(starts: Iterable[Start]) -> list[Start]:
    """Return starts in the order of the flow; those at one position become one.

    "Part One" and "Chapter 1" at one place are "Part One: Chapter 1".
    """
    joined: list[Start] = []
    for start in sorted(starts, key=lambda each: each.position):
        if joined and joined[-1].position == start.position:
            joined[-1] = Start(start.position, _both(joined[-1].title, start.title), start.depth)
        else:
            joined.append(start)
    return joined


def spoken_starts(starts: Sequence[Start], is_spoken: Sequence[bool]) -> list[Start]:
    """Return the starts that have something to speak before the next one.

    Of a part that is only a picture, the title goes to the first chapter in it.
    """
    before = [0]
    for spoken in is_spoken:
        before.append(before[-1] + spoken)
    kept: list[Start] = []
    waiting: Start | None = None
    for number, start in enumerate(starts):
        end = starts[number + 1].position if number + 1 < len(starts) else len(is_spoken)
        if waiting is not None and start.depth > waiting.depth:
            start = Start(start.position, _both(waiting.title, start.title), start.depth)
        waiting = None
        if before[end] > before[start.position]:
            kept.append(start)
        else:
            waiting = start
    return kept


def starts_of_headings(headings: Sequence[Heading]) -> list[Start]:
    """Return a chapter for each heading of the first level that a book has twice, and above it.

    Headings that follow one another without a text between are one chapter.
    """
    if not headings:
        return []
    counts = Counter(each.level for each in headings)
    levels = [level for level in sorted(counts) if counts[level] > 1]
    most = levels[0] if levels else max(counts)
    starts: list[Start] = []
    last: Heading | None = None
    for each in headings:
        if each.level > most:
            continue
        follows = last is not None and each.position == last.position + 1
        if last is not None and follows and each.level > last.level:
            starts[-1] = Start(starts[-1].position, _both(starts[-1].title, each.title))
        else:
            starts.append(Start(each.position, each.title))
        last = each
    return starts


def same_title(first: str, second: str) -> bool:
    """Return whether two titles have the same letters and digits."""
    return bool(letters_of(first)) and letters_of(first) == letters_of(second)


def letters_of(title: str) -> str:
    """Return what of a title does not depend on case, spaces and marks."""
    return "".join(filter(str.isalnum, title.casefold()))


def _both(first: str, second: str) -> str:
    if not first or not second or same_title(first, second) or len(first) > _LONGEST_TITLE:
        return first or second
    return f"{first}: {second}"
