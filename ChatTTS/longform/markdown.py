"""Read Markdown: headings of the first two levels are chapters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .plain import unwrapped
from .script import Join, Line, Place, Script

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}([-*_])(?:\s*\1){2,}\s*$")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(?=\S)")
_QUOTE = re.compile(r"\s{0,3}>\s?")
_TABLE_RULE = re.compile(r"\s*\|?[\s:|-]*-{3}[\s:|-]*$")
_INLINE = (
    (re.compile(r"<!--.*?-->", re.DOTALL), ""),
    (re.compile(r"!\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\[\^[^\]]+\]:?"), ""),
    (re.compile(r"\[([^\[\]]+)\](?:\([^)]*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r"<(https?://[^>\s]+)>"), r"\1"),
    (re.compile(r"</?[A-Za-z][^<>]*>"), ""),
    (re.compile(r"`+([^`]+)`+"), r"\1"),
    (re.compile(r"(\*\*\*|\*\*|\*)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<!\w)(___|__|_)(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"~~(.+?)~~"), r"\1"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
)
_CHAPTER_LEVELS = 2
# Marks are looked for in so many characters of a paragraph at once: a mark without its end costs a
# look through all that follows.
_LONGEST = 4000
# The pause of a rule between two paragraphs, in seconds.
_RULE_PAUSE = 1.5


def read_markdown(text: str, name: str) -> Script:
    """Return the paragraphs of a Markdown text; headings are spoken, too.

    Code blocks are left out with a warning.
    """
    reader = _Reader(name)
    for number, written in enumerate([*text.splitlines(), ""], 1):
        reader.take(number, written)
    reader.end_paragraph()
    return reader.script()


@dataclass
class _Reader:
    """The state of reading, line by line."""

    name: str
    lines: list[Line] = field(default_factory=list)
    chapters: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    paragraph: list[str] = field(default_factory=list)
    first: int = 0
    fence: str = ""
    title: str = ""

    def take(self, number: int, written: str) -> None:
        """Take one line of the source."""
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
        heading = _HEADING.match(written)
        if heading is not None:
            self.end_paragraph()
            self.add_heading(number, len(heading[1]), heading[2])
        elif len(self.paragraph) == 1 and _UNDERLINE.match(written):
            text, self.paragraph = self.paragraph[0], []
            self.add_heading(self.first, 1 if "=" in written else 2, text)
        elif _RULE.match(written):
            self.end_paragraph()
            self.lines.append(
                Line("", pause=_RULE_PAUSE, chapter=self.chapter, place=Place(self.name, number))
            )
        elif not written.strip():
            self.end_paragraph()
        elif not _TABLE_RULE.match(written):
            self.add_text(number, written)

    def add_text(self, number: int, written: str) -> None:
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
        title = _plain(written)
        if not title:
            return
        if level <= _CHAPTER_LEVELS:
            if not self.chapters and self.lines:
                self.chapters.append("")  # the text before the first heading
            self.chapters.append(title)
            if level == 1 and not self.title:
                self.title = title
        self.add(number, title)

    def end_paragraph(self) -> None:
        if self.paragraph:
            self.add(self.first, _plain(unwrapped("\n".join(self.paragraph))))
            self.paragraph = []

    def add(self, number: int, text: str) -> None:
        if text:
            place = Place(self.name, number)
            self.lines.append(Line(text, chapter=self.chapter, join=Join.PARAGRAPH, place=place))

    @property
    def chapter(self) -> int:
        return max(0, len(self.chapters) - 1)

    def script(self) -> Script:
        return Script(
            tuple(self.lines),
            tuple(self.chapters) or ("",),
            title=self.title,
            warnings=tuple(self.warnings),
        )


def _plain(text: str) -> str:
    """Return a text without the marks of emphasis, links, images and HTML."""
    parts = []
    while len(text) > _LONGEST:
        cut = max(text.rfind(". ", 0, _LONGEST), text.rfind(" ", _LONGEST // 2, _LONGEST)) + 1
        parts.append(text[: cut or _LONGEST])
        text = text[cut or _LONGEST :]
    parts.append(text)
    for pattern, plain in _INLINE:
        parts = [pattern.sub(plain, part) for part in parts]
    return "".join(parts).strip()
