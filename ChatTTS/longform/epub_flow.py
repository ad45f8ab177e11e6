"""The text of a book as one flow of paragraphs, and the notes in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from .epub_package import link_target
from .html_blocks import Block, Blocks, Mark
from .notes import MARK, Note
from .script import Place
from .spaces import unwrapped

_MOST_BLOCKS = 40  # of a note
_FEW = 4  # marks at the beginning or the end of a note
_NOTES_PAGE = 0.6  # of the paragraphs of a document that holds notes
_CLOSING = ("", *" .,;:!?…”’)]")
_LETTERS = re.compile(r"\w+")
_OPENING = re.compile(r"[\s\[\](){}（）［］.:,*∗†‡§¶‖#※↩←^\ufe0e]{1,20}")


@dataclass
class Flow:
    """The paragraphs of the documents, in order.

    Attributes:
        members: the document of each block.
        begins: the first block of each document.
        anchors: by member and id: the first block of an element, and the one behind the last.
    """

    blocks: list[Block] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    begins: dict[str, int] = field(default_factory=dict)
    anchors: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def add(self, member: str, found: Blocks) -> None:
        """Append a document. Its border is a silent block."""
        begin = self.begins[member] = len(self.blocks)
        self.blocks.append(Block("", 0, is_silent=True))
        for block in found.blocks:
            marks = (
                replace(
                    mark, target="#".join(link_target(member, mark.target)) if mark.target else ""
                )
                for mark in block.marks
            )
            self.blocks.append(replace(block, marks=tuple(marks)))
        self.members += [member] * (len(found.blocks) + 1)
        for name, (first, last) in found.anchors.items():
            self.anchors[member, name] = (first + begin + 1, last + begin + 1)

    def note_at(self, target: str) -> range:
        """Return the blocks of the element that a mark leads to; none if there is no such one."""
        member, _, fragment = target.partition("#")
        first, last = self.anchors.get((member, fragment), (0, 0))
        if not fragment or not first or first >= len(self.blocks):
            return range(0)
        found = range(first, max(last, first + 1))
        return found if len(found) <= _MOST_BLOCKS else range(0)


@dataclass
class SettledNotes:
    """The notes of a flow.

    Attributes:
        of_block: the note that each block belongs to, by the block's number.
        marks: by block, the key of each mark's note; empty for one without a note, ``None`` for
            what is no mark.
    """

    of_block: dict[int, str] = field(default_factory=dict)
    marks: dict[int, list[str | None]] = field(default_factory=dict)


def settle_notes(flow: Flow) -> SettledNotes:
    """Find out which links are marks and which paragraphs are notes, and silence the notes.

    A link with the text of a mark is one if the document says so, or if what it leads to is called
    a note, leads back, or begins with that text.
    """
    settled = SettledNotes()
    for number, block in enumerate(flow.blocks):
        settled.marks[number] = [
            _note_of(flow, number, place, mark) for place, mark in enumerate(block.marks)
        ]
    for keys in settled.marks.values():
        for key in filter(None, keys):
            for part in flow.note_at(key):
                settled.of_block.setdefault(part, key)
    _add_unmarked(flow, settled)
    _silence_headings(flow, settled)
    for number in settled.of_block:
        flow.blocks[number].is_silent = True
    return settled


def _note_of(flow: Flow, number: int, place: int, mark: Mark) -> str | None:
    """Return the key of a mark's note; empty for one without a note, ``None`` for no mark."""
    block = flow.blocks[number]
    found = flow.note_at(mark.target)
    if not found or number in found:
        return "" if mark.is_certain or not mark.label else None
    note = flow.blocks[found[0]]
    if note.level or any(flow.blocks[part].level for part in found[1:3]):
        return "" if mark.is_certain or not mark.label else None
    if block.in_note != note.in_note:
        return mark.target if note.in_note else ""
    if block.in_note:
        return ""
    if _leading_back(flow, number, found):
        return "" if _is_note_of_two(flow, number, place, found) else mark.target
    if mark.is_certain:
        return mark.target
    begins = mark.label and _begins_with(note.text, mark.label)
    return mark.target if begins and not mark.label.isalpha() else None


def _is_note_of_two(flow: Flow, number: int, place: int, other: range) -> bool:
    """Return whether of two paragraphs that lead to one another the first one is the note."""
    block = flow.blocks[number]
    if not block.marks[place].label:
        return True  # an arrow leads back
    back = _leading_back(flow, number, other)
    if any(not flow.blocks[part].marks[n].label for part, n in back):
        return False
    own_begins = place == 0 and _begins_with_mark(block)
    its_begins = any(n == 0 and _begins_with_mark(flow.blocks[part]) for part, n in back)
    return own_begins if own_begins != its_begins else number > other[0]


def _leading_back(flow: Flow, number: int, note: range) -> list[tuple[int, int]]:
    """Return the marks of a note that lead to a block: the block of each, and its place there.

    They stand at the beginning or at the end of the note.
    """
    back = []
    for part in sorted({note[0], note[-1]}):
        marks = flow.blocks[part].marks
        places = sorted(
            {*range(min(_FEW, len(marks))), *range(max(0, len(marks) - _FEW), len(marks))}
        )
        back += [(part, place) for place in places if number in flow.note_at(marks[place].target)]
    return back


def _begins_with_mark(block: Block) -> bool:
    return block.text.lstrip(" [(").startswith(MARK)


def _begins_with(text: str, label: str) -> bool:
    core = "".join(_LETTERS.findall(label))
    if not core:
        return text.lstrip(" [(").startswith(label.strip("[]() "))
    first = _LETTERS.search(text)
    return first is not None and first.start() <= 2 and first[0] == core


def _add_unmarked(flow: Flow, settled: SettledNotes) -> None:
    """Add paragraphs that are called notes, and those between the notes of a page of notes."""
    counts: dict[str, list[int]] = {}
    for number, block in enumerate(flow.blocks):
        if block.text and not block.level:
            count = counts.setdefault(flow.members[number], [0, 0])
            count[0] += 1
            count[1] += number in settled.of_block or block.in_note
    for number, block in enumerate(flow.blocks):
        if not block.text or number in settled.of_block:
            continue
        member = flow.members[number]
        before = settled.of_block.get(number - 1) if flow.members[number - 1] == member else None
        count = counts.get(member, [1, 0])
        follows = before is not None and not block.level and count[1] >= _NOTES_PAGE * count[0]
        if block.in_note or follows:
            settled.of_block[number] = before or f"{member}#{number}"


def _silence_headings(flow: Flow, settled: SettledNotes) -> None:
    """Silence the headings under which there are notes alone."""
    has_notes = has_text = False
    for number in range(len(flow.blocks) - 1, -1, -1):
        block = flow.blocks[number]
        if number in settled.of_block:
            has_notes = True
        elif block.level and has_notes and not has_text:
            block.is_silent = True
        elif block.level:
            has_notes = has_text = False
        elif block.text and not block.is_silent:
            has_text = True
        if not number or flow.members[number] != flow.members[number - 1]:
            has_notes = has_text = False


def text_of(block: Block, keys: list[str | None]) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return the text of a block without its marks, and where the marks of notes stand."""
    first, *parts = block.text.split(MARK)
    texts, marks, length = [first], [], len(first)
    for part, mark, key in zip(parts, block.marks, keys, strict=True):
        if key is None:
            part = mark.label + part
        elif part[:1] in _CLOSING:
            length -= len(texts[-1]) - len(texts[-1].rstrip())
            texts[-1] = texts[-1].rstrip()
        if key:
            marks.append((length, key))
        texts.append(part)
        length += len(part)
    return "".join(texts), tuple(marks)


def notes_of(
    flow: Flow, settled: SettledNotes, chapters: list[int], name: str
) -> Iterator[tuple[str, Note]]:
    """Yield the notes with their keys; ``chapters`` has the chapter of each block."""
    notes: dict[str, Note] = {}
    for number, key in sorted(settled.of_block.items()):
        block = flow.blocks[number]
        if block.level:
            continue
        text = unwrapped(block.text.replace(MARK, ""))
        if key not in notes:
            place = Place(f"{name}/{flow.members[number]}", block.line)
            notes[key] = Note(chapters[number], place)
        own = notes[key]
        text = text if any(own.texts) else _without_label(text)
        own.texts.append(text)
    yield from notes.items()


def _without_label(text: str) -> str:
    """Return the first paragraph of a note without the number before it."""
    found = re.match(r"[\[(]?\d{1,4}[\])]?[.:)]?\s+(?=\S)|[\[(]?\d{1,4}[\])]\s*$", text)
    text = text[found.end() :] if found else text
    opening = _OPENING.match(text)
    if opening and (
        opening.end() == len(text) or not opening[0].strip(" ").startswith(("(", "（"))
    ):
        text = text[opening.end() :]
    return text.strip()
