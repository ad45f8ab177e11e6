"""Read Markdown: headings of the first two levels are chapters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .notes import MARK, Note, NotedText, Notes, with_notes
from .script import Join, Line, Place, Script
from .spaces import unwrapped

_HEADING = re.compile(r"^ {0,3}(#{1,6})\s(.*)")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE = re.compile(r"^ {0,3}([-*_])(?:\s*\1){2,}\s*$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+(?=\S)")
_NOTE = re.compile(r"^ {0,3}\[\^([^\[\]]{1,200})\]:\s{0,9}")
_NOTE_MARK = re.compile(r"\[\^([^\[\]]{1,200})\]")
_NOTE_GOES_ON = ("    ", "\t")
_QUOTE = re.compile(r"^\s{0,3}>\s?")
_TABLE_RULE = frozenset(" \t:|-")
_INLINE = (
    (re.compile(r"<!--[^<]*(?:<(?!!--)[^<]*)*?-->"), ""),
    (re.compile(r"!\[([^\[\]]*)\]\([^()]*\)"), r"\1"),
    (re.compile(r"\[\^[^\[\]]{1,200}\]"), MARK),
    (re.compile(r"\[([^\[\]]+)\](?:\([^)]*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r"<(https?://[^<>\s]+)>"), r"\1"),
    (re.compile(r"</?[A-Za-z][^<>]*>"), ""),
    (re.compile(r"`{1,3}([^`]{1,500})`{1,3}"), r"\1"),
    (re.compile(r"(\*\*\*|\*\*|\*)(?=\S)(.{1,500}?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<!\w)(___|__|_)(?=\S)(.{1,500}?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"~~(.+?)~~"), r"\1"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
)
_CHAPTER_LEVELS = 2
# The patterns may take the square of a hostile text's length. A longer line is a paragraph, and of
# a longer paragraph each slice is searched by itself.
_LONGEST_MARK, _LONGEST_SLICE = 1000, 2000
# The pause of a rule between two paragraphs, in seconds.
_RULE_PAUSE = 1.5


def read_markdown(text: str, name: str, notes: Notes = "skip") -> Script:
    """Return the paragraphs of a Markdown text; headings are spoken, too.

    Code blocks are left out with a warning.

    Args:
        notes: where notes, ``[^1]: ...``, are spoken.
    """
    reader = _Reader(name, notes)
    for number, written in enumerate([*text.replace(MARK, "").splitlines(), ""], 1):
        reader.take(number, written)
    reader.end_paragraph()
    return reader.script()


@dataclass
class _Reader:
    """The state of reading, line by line."""

    name: str
    mode: Notes
    texts: list[NotedText] = field(default_factory=list)
    notes: dict[str, Note] = field(default_factory=dict)
    note: str = ""
    chapters: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    paragraph: list[str] = field(default_factory=list)
    first: int = 0
    fence: str = ""
    title: str = ""
    labels: list[str] = field(default_factory=list)

    def take(self, number: int, written: str) -> None:
        """Take one line of the source."""
        if len(written) > _LONGEST_MARK:
            if not self.fence:
                self.add_text(number, written)
            return
        fence = _FENCE.match(written)
        if self.fence:
            if fence is not None and fence[1].startswith(self.fence):
                self.fence = ""
            return
        if fence is not None:
            self.end_paragraph()
            self.fence = fence[1]
            self.warnings.append(f"{Place(self.name, number)}: a code block is left out")
            return
        if self.note and not self.paragraph and written.startswith(_NOTE_GOES_ON):
            self.add_text(number, written)
            return
        heading = _HEADING.match(written)
        if heading is not None:
            self.end_paragraph()
            self.add_heading(number, len(heading[1]), _without_closing(heading[2]))
        elif len(self.paragraph) == 1 and _UNDERLINE.match(written):
            text, self.paragraph = self.paragraph[0], []
            self.add_heading(self.first, 1 if "=" in written else 2, text)
        elif _RULE.match(written):
            self.end_paragraph()
            place = Place(self.name, number)
            line = Line("", pause=_RULE_PAUSE, chapter=self.chapter, place=place)
            self.texts.append(NotedText(line))
        elif not written.strip():
            self.end_paragraph()
        elif not (_TABLE_RULE.issuperset(written) and "---" in written):
            self.add_text(number, written)

    def add_text(self, number: int, written: str) -> None:
        note = _NOTE.match(written)
        if note is not None:
            self.end_paragraph()
            self.note, written = note[1], written[note.end() :]
            self.notes.setdefault(self.note, Note(self.chapter, Place(self.name, number)))
        elif not self.paragraph and self.note and not written.startswith(_NOTE_GOES_ON):
            self.note = ""
        text = _QUOTE.sub("", written, count=1) if _QUOTE.match(written) else written
        item = _ITEM.match(text)
        is_row = text.strip().startswith("|")
        if item is not None or is_row:
            self.end_paragraph()
        if item is not None:
            text = text[item.end() :]
        if is_row:
            text = ", ".join(cell.strip() for cell in text.strip().strip("|").split("|"))
        if not self.paragraph:
            self.first = number
        self.paragraph.append(text)

    def add_heading(self, number: int, level: int, written: str) -> None:
        self.note = ""
        title = _plain(written).replace(MARK, "").strip()
        if not title:
            return
        if level <= _CHAPTER_LEVELS:
            if not self.chapters and self.texts:
                self.chapters.append("")  # the text before the first heading
            self.chapters.append(title)
            if level == 1 and not self.title:
                self.title = title
        self.add(number, title)

    def end_paragraph(self) -> None:
        if self.paragraph:
            whole = unwrapped("\n".join(self.paragraph))
            self.labels = _NOTE_MARK.findall(whole)
            self.add(self.first, _plain(whole))
            self.paragraph = []

    def add(self, number: int, written: str) -> None:
        """Add a paragraph with its marks of notes, or a paragraph of a note."""
        first, *parts = written.split(MARK)
        text = "".join((first, *parts)).strip()
        if self.note and text:
            self.notes[self.note].texts.append(text)
        elif text:
            marks, length = [], len(first)
            for part, label in zip(parts, self.labels, strict=False):
                marks.append((length, label))
                length += len(part)
            line = Line(
                text, chapter=self.chapter, join=Join.PARAGRAPH, place=Place(self.name, number)
            )
            self.texts.append(NotedText(line, tuple(marks)))
        self.labels = []

    @property
    def chapter(self) -> int:
        return max(0, len(self.chapters) - 1)

    def script(self) -> Script:
        return Script(
            tuple(with_notes(self.texts, self.notes, self.mode)),
            tuple(self.chapters) or ("",),
            title=self.title,
            warnings=tuple(self.warnings),
        )


def _plain(text: str) -> str:
    """Return a text without the marks of emphasis, links, images and HTML."""
    return "".join(map(_plain_slice, _slices(text))).strip()


def _plain_slice(text: str) -> str:
    for pattern, plain in _INLINE:
        text = pattern.sub(plain, text)
    return text


def _slices(text: str) -> Iterator[str]:
    """Yield a text in slices whose marks are looked for by themselves."""
    start = 0
    while len(text) - start > _LONGEST_SLICE:
        end = text.rfind(" ", start, start + _LONGEST_SLICE) + 1
        end = end if end > start else start + _LONGEST_SLICE
        yield text[start:end]
        start = end
    yield text[start:]


def _without_closing(heading: str) -> str:
    """Return the text of a heading without the marks that may close it; "C#" keeps its own."""
    text = heading.strip()
    bare = text.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else text
