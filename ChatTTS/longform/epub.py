"""Read EPUB 2 and 3: the text in the order of the spine, with the chapters of the contents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from .archive import Archive
from .chapters import (
    Heading,
    Start,
    joined_starts,
    letters_of,
    same_title,
    spoken_starts,
    starts_of_headings,
)
from .cover import NO_PICTURE, is_picture
from .epub_contents import Entry, read_contents
from .epub_flow import Flow, notes_of, settle_notes, text_of
from .epub_package import Package, read_package
from .gutenberg import work_in
from .html_blocks import blocks_of
from .notes import MARK, NotedText, Notes, with_notes
from .script import Join, Line, Place, Script, ScriptError, check_count
from .untrusted_xml import parse_html

# The pause of a border between two scenes, in seconds.
_SCENE_PAUSE = 1.5
# Contents of a single entry, such as "Start", say nothing of a book with headings.
_FEW = 2
_NEAR = 20  # blocks between an anchor and the heading that it belongs to


def read_epub(
    source: Path | BinaryIO, name: str, most: int | None = None, notes: Notes = "skip"
) -> Script:
    """Return the chapters of a book.

    Each entry of the contents is a chapter; a document that they do not name goes on the last one.
    Without contents that can be used, the headings are the chapters.

    Args:
        source: the book's file, or an open one.
        name: of the book, for messages.
        most: bytes of all its files that are read; see :class:`.archive.Archive`.
        notes: where footnotes and endnotes are spoken.

    Raises:
        ScriptError: the file is damaged, protected, or beyond the bounds of :class:`Archive`.
    """
    warnings: list[str] = []
    with Archive(source, name, most) as archive:
        package = read_package(archive)
        entries = _entries(archive, package, warnings)
        flow = _flow(archive, package, entries, warnings)
        cover = _cover(archive, package.cover, warnings)
    settled = settle_notes(flow)
    _silence_frame(flow)
    said = [
        ("", ()) if block.is_silent else text_of(block, settled.marks[number])
        for number, block in enumerate(flow.blocks)
    ]
    is_spoken = [bool(text.strip()) for text, _ in said]
    starts = _starts(flow, is_spoken, package, entries, name, warnings)
    chapters = _chapters_of_blocks(starts, len(flow.blocks))
    texts = list(_texts(flow, said, chapters, name))
    told = dict(notes_of(flow, settled, chapters, name))
    lines = tuple(with_notes(texts, told, notes))
    if not lines:
        raise ScriptError(f"{name}: the book has no text")
    titles = tuple(start.title for start in starts)
    return Script(lines, titles, package.title, package.author, cover, tuple(warnings))


def _texts(
    flow: Flow,
    said: Sequence[tuple[str, tuple[tuple[int, str], ...]]],
    chapters: Sequence[int],
    name: str,
) -> Iterator[NotedText]:
    """Yield what is spoken, with a pause between two scenes of a chapter."""
    chapter, scene = -1, None
    for number, block in enumerate(flow.blocks):
        place = Place(f"{name}/{flow.members[number]}", block.line)
        if block.is_break:
            scene = place
        text, marks = said[number]
        if not text.strip():
            continue
        if scene is not None and chapter == chapters[number]:
            yield NotedText(Line("", pause=_SCENE_PAUSE, chapter=chapter, place=scene))
        chapter, scene = chapters[number], None
        join = Join.LINE if block.ends_line else Join.PARAGRAPH
        yield NotedText(Line(text, chapter=chapter, join=join, place=place), marks)


def _chapters_of_blocks(starts: Sequence[Start], count: int) -> list[int]:
    """Return the number of the chapter of each block."""
    chapters: list[int] = []
    ends = [start.position for start in starts[1:]] + [count]
    for number, end in enumerate(ends):
        chapters += [number] * (end - len(chapters))
    return chapters


def _entries(archive: Archive, package: Package, warnings: list[str]) -> list[Entry]:
    """Return the entries of the first contents that lead somewhere; none without such ones."""
    documents = frozenset(package.documents)
    for member in package.contents:
        try:
            found = read_contents(archive, member)
        except ScriptError as error:
            warnings.append(f"{error}; the contents are left out")
            continue
        if any(entry.member in documents for entry in found):
            return found
    return []


def _flow(
    archive: Archive, package: Package, entries: Sequence[Entry], warnings: list[str]
) -> Flow:
    flow = Flow()
    borders: dict[str, set[str]] = {}
    for entry in entries:
        borders.setdefault(entry.member, set()).add(entry.fragment)
    links = frozenset(_references(entries))
    for member in package.documents:
        place = f"{archive.name}/{member}"
        root = parse_html(archive.read(member), place)
        found = blocks_of(root, frozenset(borders.get(member, ())) - {""}, links)
        check_count(len(flow.blocks) + len(found.blocks), Place(place))
        for kind, lines in found.left_out.items():
            count = f"{len(lines)} {kind}s are" if len(lines) > 1 else f"a {kind} is"
            warnings.append(f"{Place(place, lines[0])}: {count} left out")
        if member in package.aside and member not in borders:
            for block in found.blocks:
                block.is_silent = True
        flow.add(member, found)
    return flow


def _references(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the ways in which documents write the targets of the contents."""
    for entry in entries:
        fragment = f"#{entry.fragment}" if entry.fragment else ""
        yield entry.member.rpartition("/")[2] + fragment
        yield entry.member + fragment
        if fragment:
            yield fragment


def _silence_frame(flow: Flow) -> None:
    """Silence the header and the licence of Project Gutenberg, where they are paragraphs."""
    work = work_in([block.text for block in flow.blocks])
    for number, block in enumerate(flow.blocks):
        block.is_silent = block.is_silent or number not in work


def _starts(
    flow: Flow,
    is_spoken: Sequence[bool],
    package: Package,
    entries: Sequence[Entry],
    name: str,
    warnings: list[str],
) -> list[Start]:
    """Return the chapters that have a text; the first one begins with the first text."""
    headings = [
        Heading(number, block.text.replace(MARK, ""), block.level)
        for number, block in enumerate(flow.blocks)
        if block.level and is_spoken[number]
    ]
    finder = _StartFinder(flow, headings, name, warnings)
    found = filter(None, map(finder.start, entries))
    starts = spoken_starts(joined_starts(found), is_spoken)
    if len(starts) < _FEW:
        by_heading = spoken_starts(starts_of_headings(headings), is_spoken)
        starts = by_heading if len(by_heading) > len(starts) else starts
    first = is_spoken.index(True) if True in is_spoken else 0
    end = starts[0].position if starts else len(flow.blocks)
    if first < end:
        own = (each.title for each in headings if each.position < end)
        starts.insert(0, Start(0, next(own, package.title)))
    return starts


class _StartFinder:
    """Finds where the entries of the contents lead."""

    def __init__(
        self, flow: Flow, headings: Sequence[Heading], name: str, warnings: list[str]
    ) -> None:
        self._flow, self._name, self._warnings = flow, name, warnings
        self._named: dict[tuple[str, str], int] = {}
        self._first: dict[str, str] = {}
        for each in headings:
            member = flow.members[each.position]
            self._named.setdefault((member, letters_of(each.title)), each.position)
            self._first.setdefault(member, each.title)

    def start(self, entry: Entry) -> Start | None:
        """Return the start of a chapter; ``None``, with a warning, if its document is none."""
        begin = self._flow.begins.get(entry.member)
        where = f"{entry.member}#{entry.fragment}" if entry.fragment else entry.member
        if begin is None:
            self._warn(entry, where)
            return None
        if not entry.fragment:
            title = entry.title or self._first.get(entry.member, "")
            return Start(begin + 1, title, entry.depth)
        position = self._flow.anchors.get((entry.member, entry.fragment), (0, 0))[0]
        if not position:
            self._warn(entry, where)
            named = self._named.get((entry.member, letters_of(entry.title)))
            return Start(begin + 1 if named is None else named, entry.title, entry.depth)
        return Start(self._with_heading(position, begin, entry), entry.title, entry.depth)

    def _with_heading(self, position: int, begin: int, entry: Entry) -> int:
        """Return the place of the heading of an entry, if it stands right before ``position``."""
        blocks = self._flow.blocks
        for before in range(position - 1, max(begin, position - _NEAR), -1):
            if blocks[before].text:
                is_own = blocks[before].level and same_title(blocks[before].text, entry.title)
                return before if is_own else position
        return position

    def _warn(self, entry: Entry, where: str) -> None:
        self._warnings.append(
            f"{self._name}: the contents name {entry.title!r} at {where}, which the book does not "
            "have"
        )


def _cover(archive: Archive, member: str | None, warnings: list[str]) -> bytes | None:
    if member is None or member not in archive:
        return None
    data = archive.read(member)
    if is_picture(data):
        return data
    warnings.append(f"{archive.name}/{member}: {NO_PICTURE}, and is left out")
    return None
