"""Read plain text: paragraphs between blank lines, and chapters by lines such as "Chapter 1"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from .chapters import Start
from .gutenberg import is_of_gutenberg, told_fields, work_in
from .notes import Note, NotedText, Notes, with_notes, without_controls, without_superscripts
from .plain_headings import Paragraph, find_chapters
from .script import Join, Line, Place, Script
from .spaces import unwrapped

_INDENT = "\u3000\u3000"  # of each paragraph, where no blank lines are between them
_FRONT = re.compile(
    r"(?:Produced|Transcribed|Prepared|E-?text prepared) by |\[?Transcriber['’]s note|"
    r"\[?Illustration[s\]]?\s*$",
    re.IGNORECASE,
)
_PICTURE = re.compile(r"\[Illustration(?::\s{0,9}([^\[\]]{0,1000}))?\]")
_NOTE = re.compile(r"[\[{](?:Footnote |Note )?(\d{1,4}|[A-Z*])[:\]}]\s{0,9}(?=\S)")
_MARK = re.compile(r"[\[{](\d{1,4}|[A-Z*])[\]}]")
# Of a text of Project Gutenberg: title pages and contents are no longer.
_FRONT_CHARACTERS, _FRONT_SHARE = 6000, 0.05


def read_plain(text: str, name: str, notes: Notes = "skip") -> Script:
    """Return a line for each paragraph; blank lines separate paragraphs.

    The header and the licence of Project Gutenberg are left out, and before the first chapter of
    such a text its front matter: who produced it, title page and contents.

    Args:
        notes: where notes such as ``[Footnote 1: ...]`` are spoken.
    """
    written = text.splitlines()
    work = work_in(written)
    is_book = is_of_gutenberg(written)
    told = told_fields(written[: work.start]) if is_book else {}
    paragraphs = list(_paragraphs(written, work))
    starts, left_out = find_chapters(paragraphs)
    first = starts[0].position if starts else 0
    if is_book:
        left_out |= _front(paragraphs, first)
    spoken = [each for number, each in enumerate(paragraphs) if number not in left_out]
    numbers = [number for number in range(len(paragraphs)) if number not in left_out]
    titles, chapters = _chapters(starts, numbers)
    texts, found = _with_marks(spoken, chapters, name)
    lines = tuple(with_notes(texts, found, notes))
    return Script(lines, titles, told.get("Title", ""), told.get("Author", ""))


def _paragraphs(written: Sequence[str], work: range) -> Iterator[Paragraph]:
    lines: list[str] = []
    first = 0
    for number in work:
        line = without_controls(written[number])
        if lines and (not line.strip() or line.startswith(_INDENT)):
            yield Paragraph(tuple(lines), first)
            lines = []
        if line.strip():
            first = first if lines else number + 1
            lines.append(line)
    if lines:
        yield Paragraph(tuple(lines), first)


def _front(paragraphs: Sequence[Paragraph], first: int) -> set[int]:
    """Return the paragraphs before the work: all before its first chapter, if they are few."""
    front = {n for n, each in enumerate(paragraphs[:20]) if _FRONT.match(each.lines[0].strip())}
    sizes = [sum(map(len, each.lines)) for each in paragraphs]
    most = max(_FRONT_CHARACTERS, _FRONT_SHARE * sum(sizes))
    return front | set(range(first)) if sum(sizes[:first]) <= most else front


def _chapters(starts: Sequence[Start], numbers: Sequence[int]) -> tuple[tuple[str, ...], list[int]]:
    """Return the titles, and the chapter of each paragraph that is spoken."""
    if not starts:
        return ("",), [0] * len(numbers)
    titles = [start.title for start in starts]
    begins = [start.position for start in starts]
    if numbers and numbers[0] < begins[0]:
        titles, begins = ["", *titles], [0, *begins]
    chapters, chapter = [], 0
    for number in numbers:
        while chapter + 1 < len(begins) and begins[chapter + 1] <= number:
            chapter += 1
        chapters.append(chapter)
    return tuple(titles), chapters


def _with_marks(
    paragraphs: Sequence[Paragraph], chapters: Sequence[int], name: str
) -> tuple[list[NotedText], Mapping[str, Note]]:
    """Return the paragraphs that are no notes with their marks, and the notes."""
    notes: dict[str, Note] = {}
    kept: list[tuple[str, int, Place]] = []
    of_mark: dict[tuple[int, int], str] = {}
    waiting: dict[str, list[tuple[int, int]]] = {}
    for paragraph, chapter in zip(paragraphs, chapters, strict=True):
        place = Place(name, paragraph.line)
        text = _PICTURE.sub(r"\1", unwrapped("\n".join(paragraph.lines))).strip()
        found = _NOTE.match(text)
        if found is not None and waiting.get(found[1]):
            key = f"{found[1]}:{len(notes)}"
            of_mark.update(dict.fromkeys(waiting.pop(found[1]), key))
            is_closed = found[0].rstrip().endswith(":") and text.endswith("]")
            body = text[found.end() : -1] if is_closed else text[found.end() :]
            notes[key] = Note(chapter, place, [body.strip()])
            continue
        text = without_superscripts(text)
        if not text:
            continue
        for mark in _MARK.finditer(text):
            waiting.setdefault(mark[1], []).append((len(kept), mark.start()))
        kept.append((text, chapter, place))
    return [
        _noted(text, number, chapter, place, of_mark)
        for number, (text, chapter, place) in enumerate(kept)
    ], notes


def _noted(
    text: str, number: int, chapter: int, place: Place, of_mark: Mapping[tuple[int, int], str]
) -> NotedText:
    """Return a paragraph without its marks of notes, and where they stood."""
    parts: list[str] = []
    marks: list[tuple[int, str]] = []
    end = length = 0
    for mark in _MARK.finditer(text):
        key = of_mark.get((number, mark.start()))
        if key is None:
            continue
        parts.append(text[end : mark.start()])
        length += len(parts[-1])
        marks.append((length, key))
        end = mark.end()
    parts.append(text[end:])
    line = Line("".join(parts), chapter=chapter, join=Join.PARAGRAPH, place=place)
    return NotedText(line, tuple(marks))
