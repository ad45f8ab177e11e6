"""The paragraphs of a document of a book, with its anchors and the marks of notes in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .html_links import lists_of_links
from .html_roles import (
    BLOCKS,
    HEADINGS,
    Role,
    is_drop_capital,
    is_line,
    is_poem,
    is_raised,
    role_of,
)
from .notes import MARK, without_controls, without_superscripts
from .spaces import unwrapped
from .untrusted_xml import tag_of, walked

if TYPE_CHECKING:
    from lxml.etree import _Element

_CONTENTS = re.compile(
    r"(?:table of )?contents|目\s?录|目\s?次|目錄|index|list of illustrations|illustrations",
    re.IGNORECASE,
)
# Stars and other ornaments between two scenes.
_ORNAMENT = re.compile(r"[\s*＊⁂~#•·☙❦❧—–_.=-]{1,60}")
_LABEL = re.compile(
    r"[\[({（［〔]?(?:note |注|註)?(?:\d{1,4}|[*∗†‡§¶‖#※]{1,4}|[a-z]|[ivxl]{1,6}|[①-⑳])"
    r"[\])}）］〕.]?"
)
_ARROW = re.compile(
    r"(?:[↩⏎↵↑←^▲⤴⮌\ufe0e\s]|\[?(?:back|return)(?: to text)?\]?){1,9}[\d\[\]().]{0,6}",
    re.IGNORECASE,
)
_WORD_BEFORE = re.compile(r"(?:[^\W\d_]{4}|[.,;:!?…\"'”’)\]。，；：！？」』）])$")
_RAISED_DIGITS = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_POWER = re.compile(r"[-−+]?\d{1,3}")
_LINE_END = re.compile(r"[.,;:!?…—–\"'”’)\]。，；：！？」』）]\s*$")
_LONGEST_LABEL = 24


@dataclass(frozen=True)
class Mark:
    """A piece of text that looks like the mark of a note.

    Attributes:
        label: its text, such as ``[1]``; empty for an arrow, which leads back from a note.
        target: what it links to; empty if nothing.
        is_certain: whether the document says that it is one.
    """

    label: str
    target: str
    is_certain: bool


@dataclass
class Block:
    """A paragraph, or a place where something is that is not spoken.

    Attributes:
        text: ``notes.MARK`` in it stands for each of the marks, in their order.
        line: in the document.
        level: of a heading, from 1; 0 for other paragraphs.
        marks: of notes.
        in_note: whether the document says that it belongs to a note.
        is_break: whether it is a border between two scenes.
        ends_line: whether it is a line of a poem.
        is_silent: whether it is not spoken where it stands.
    """

    text: str
    line: int
    level: int = 0
    marks: tuple[Mark, ...] = ()
    in_note: bool = False
    is_break: bool = False
    ends_line: bool = False
    is_silent: bool = False


@dataclass
class Blocks:
    """The blocks of a document.

    Attributes:
        anchors: for each id, the first block of its element, and the one behind the last.
        left_out: lines of code blocks and of formulas, which are not spoken.
    """

    blocks: list[Block] = field(default_factory=list)
    anchors: dict[str, tuple[int, int]] = field(default_factory=dict)
    left_out: dict[str, list[int]] = field(default_factory=dict)


def blocks_of(root: _Element, borders: frozenset[str], links: frozenset[str]) -> Blocks:
    """Return the blocks of a document.

    Args:
        borders: ids at which a chapter begins; a paragraph with one in its middle is cut.
        links: references of the table of contents; see :func:`.html_links.lists_of_links`.
    """
    walker = _Walker(borders, lists_of_links(root, links))
    for element, is_end in walked(root):
        if is_end:
            walker.end(element, element is root)
        else:
            walker.begin(element)
    walker.flush()
    return walker.result


@dataclass
class _Open:
    """An element that was begun and not ended.

    Attributes:
        mutes: whether nothing in it is spoken.
        mark: where the text of a mark began in the pieces.
        is_poem: whether its lines are those of a poem.
    """

    ids: tuple[str, ...]
    first: int
    tag: str
    role: Role
    mutes: bool
    mark: int | None = None
    is_poem: bool = False


class _Walker:
    """The state of a walk through a document."""

    def __init__(self, borders: frozenset[str], lists: set[_Element]) -> None:
        self.result = Blocks()
        self._borders, self._lists = borders, lists
        self._open: list[_Open] = []
        self._muted = self._notes = self._level = self._poems = 0
        self._pieces: list[str] = []
        self._marks: list[Mark] = []
        self._line = 0
        self._is_cell = self._joins = False

    # -- elements --------------------------------------------------------------------------

    def begin(self, element: _Element) -> None:
        tag = tag_of(element)
        role = Role.LEFT_OUT if element in self._lists else role_of(element, tag)
        ids = _ids(element, tag)
        is_block = tag in BLOCKS
        is_cell = is_block and _is_in_cell(element)
        if is_block and not is_cell and not self._muted:
            self._begin_block(tag)
        elif self._is_border(ids):
            self.flush()
        first = len(self.result.blocks)
        mutes = role in (Role.LEFT_OUT, Role.PAGE, Role.BACK, Role.CODE, Role.FORMULA)
        opened = _Open(ids, first, tag, role, mutes)
        self._open.append(opened)
        if self._muted or mutes:
            self._muted += mutes
            if mutes and self._muted == 1:
                self._leave_out(element, tag, role)
            return
        self._notes += role is Role.NOTE
        opened.is_poem = is_block and is_poem(element)
        self._poems += opened.is_poem
        if role is Role.MARK or (tag == "a" and element.get("href")) or is_raised(element, tag):
            opened.mark = len(self._pieces)
        if tag in HEADINGS:
            self._level = HEADINGS[tag]
        self._add_special(element, tag)
        if element.text:
            self._add(element.text, element)

    def end(self, element: _Element, is_root: bool) -> None:
        opened = self._open.pop()
        tag = opened.tag
        if opened.mutes:
            self._muted -= 1
        if not self._muted and not opened.mutes:
            if opened.mark is not None:
                self._end_mark(element, opened)
            is_block = tag in BLOCKS and not _is_in_cell(element)
            if is_block and is_drop_capital(element):
                self._joins = True
            elif is_block or is_line(element, tag):
                self.flush(ends_line=tag not in BLOCKS)
            self._notes -= opened.role is Role.NOTE
            self._poems -= opened.is_poem
            if tag in HEADINGS:
                self._level = 0
        last = len(self.result.blocks) + bool(self._pieces)
        for name in opened.ids:
            self.result.anchors.setdefault(name, (opened.first, last))
        if element.tail and not self._muted and not is_root:
            self._add(element.tail, element)

    def _begin_block(self, tag: str) -> None:
        if self._joins and tag in ("p", "div"):
            # The rest of the word whose first letter is a block of its own.
            while self._pieces and not self._pieces[-1].strip():
                self._pieces.pop()
        else:
            self.flush()
        self._joins = False

    def _leave_out(self, element: _Element, tag: str, role: Role) -> None:
        """Keep the place of an element that is not spoken, for chapters that begin at it."""
        line = int(element.sourceline or 0)
        if role in (Role.CODE, Role.FORMULA):
            self.result.left_out.setdefault(role.value, []).append(line)
        if tag in BLOCKS or tag in ("nav", "svg"):
            self.flush()
            if element in self._lists or tag == "nav":
                self._silence_heading()
            self.result.blocks.append(Block("", line, is_silent=True))

    def _silence_heading(self) -> None:
        """Silence the heading "Contents" of a list that is left out."""
        for block in reversed(self.result.blocks[-2:]):
            if _CONTENTS.fullmatch(block.text.strip(" .:")):
                block.is_silent = True

    def _add_special(self, element: _Element, tag: str) -> None:
        line = int(element.sourceline or 0)
        if tag == "br":
            self._end_line()
        elif tag in ("td", "th"):
            self._is_cell = any(map(str.strip, self._pieces))
        elif tag == "hr":
            self.result.blocks.append(Block("", line, is_break=True))
        elif tag in ("img", "image"):
            self._add_picture(element)

    def _add_picture(self, element: _Element) -> None:
        """Add the text of a picture that is a heading or a letter; others keep their place."""
        words = (element.get("alt") or "").strip()
        is_letter = len(words) == 1 and words.isalpha()
        if words and (is_letter or (self._level and not self._has_text())):
            self._add(words, element)
        elif not self._has_text():
            self.result.blocks.append(Block("", int(element.sourceline or 0), is_silent=True))

    # -- marks -----------------------------------------------------------------------------

    def _end_mark(self, element: _Element, opened: _Open) -> None:
        """Take the text since a mark or link began out of the pieces, if it is a mark."""
        assert opened.mark is not None
        written = self._short_since(opened.mark)
        label = written.replace(MARK, "").strip()
        target = (element.get("href") or "").strip()
        is_link = opened.tag == "a"
        is_certain = opened.role is Role.MARK
        if not label and is_certain and written.count(MARK) == 1:
            self._marks[-1] = replace(self._marks[-1], is_certain=True)
        if not label or MARK in written or "://" in target:
            return
        if is_link and _ARROW.fullmatch(label):
            self._take_mark(opened.mark, Mark("", target, False))
            return
        is_label = _LABEL.fullmatch(label) is not None
        if is_certain and (is_label or is_link) and len(label) <= _LONGEST_LABEL:
            self._take_mark(opened.mark, Mark(label, target or _inner_link(element), True))
        elif is_link and is_label and "#" in target:
            self._take_mark(opened.mark, Mark(label, target, False))
        elif not is_link and not is_certain:
            self._end_raised(opened.mark, label, is_label, element)

    def _short_since(self, begin: int) -> str:
        """Return the text of the last pieces; empty if it is longer than any mark."""
        pieces = self._pieces[begin : begin + _LONGEST_LABEL]
        if begin + len(pieces) < len(self._pieces) or sum(map(len, pieces)) > 2 * _LONGEST_LABEL:
            return ""
        return "".join(pieces)

    def _end_raised(self, mark: int, label: str, is_label: bool, element: _Element) -> None:
        """Read raised text: the mark of a note, or a power."""
        before = "".join(self._pieces[max(0, mark - 4) : mark]).rstrip(MARK)
        target = _inner_link(element)
        is_text = label.isalpha() and label.isascii() and len(label) > 1
        if target and is_label:
            self._take_mark(mark, Mark(label, target, False))
        elif is_label and not is_text and _WORD_BEFORE.search(before):
            self._take_mark(mark, Mark(label, "", True))
        elif _POWER.fullmatch(label) and before[-1:].isalnum():
            self._pieces[mark:] = [label.translate(_RAISED_DIGITS)]

    def _take_mark(self, begin: int, mark: Mark) -> None:
        self._pieces[begin:] = [MARK]
        self._marks.append(mark)

    # -- text ------------------------------------------------------------------------------

    def _has_text(self) -> bool:
        return any(map(str.strip, self._pieces))

    def _is_border(self, ids: tuple[str, ...]) -> bool:
        return bool(ids) and not self._level and not self._borders.isdisjoint(ids)

    def _add(self, text: str, element: _Element) -> None:
        text = without_controls(text)
        if not text.strip():
            if self._pieces and text:
                self._pieces.append(text)
            return
        if self._is_cell:
            self._is_cell = False
            while self._pieces and not self._pieces[-1].strip():
                self._pieces.pop()
            before = self._pieces[-1][-_LONGEST_LABEL:] if self._pieces else "."
            self._pieces.append(" " if _LINE_END.search(before) else ", ")
            if len(before.rstrip()) < len(before):
                self._pieces[-2] = self._pieces[-2].rstrip()
        if not self._has_text():
            self._line = int(element.sourceline or 0)
        self._pieces.append(text)

    def _end_line(self) -> None:
        """End a line at a break: a block of its own where it is a verse or ends with a mark."""
        if self._poems or _LINE_END.search("".join(self._pieces[-3:]).rstrip(f"{MARK} \n")):
            self.flush(ends_line=True)
        elif self._pieces:
            self._pieces.append("\n")

    def flush(self, ends_line: bool = False) -> None:
        """End the block, if it has a text."""
        if not self._pieces:
            return
        text = unwrapped("".join(self._pieces))
        marks, self._pieces, self._marks = tuple(self._marks), [], []
        self._is_cell = False
        if not text:
            return
        if _ORNAMENT.fullmatch(text.replace(MARK, "")) and not self._level:
            self.result.blocks.append(Block("", self._line, is_break=True))
            return
        text = without_superscripts(text)
        self.result.blocks.append(
            Block(text, self._line, self._level, marks, bool(self._notes), ends_line=ends_line)
        )


def _is_in_cell(element: _Element) -> bool:
    """Return whether an element is the only one in a cell of a table, which is a part of a row."""
    parent = element.getparent()
    if parent is None or tag_of(parent) not in ("td", "th"):
        return False
    # The number of children would be counted anew for each of them.
    return element.getprevious() is None and element.getnext() is None


def _ids(element: _Element, tag: str) -> tuple[str, ...]:
    own = (element.get("id"), element.get("name") if tag == "a" else None)
    return tuple(name for name in own if name)


def _inner_link(element: _Element) -> str:
    """Return what the first link in an element leads to."""
    links = (each.get("href") for each in element.iter() if tag_of(each) == "a")
    outer = element.getparent()
    own = outer.get("href") if outer is not None and tag_of(outer) == "a" else None
    return next((link for link in links if link), own or "").strip()
