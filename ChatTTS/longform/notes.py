"""Footnotes and endnotes: left out, at the end of their chapter, or after the sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..errors import ConfigError, shown
from .script import Join, Line, Place

Notes = Literal["skip", "end", "inline"]
"""The place of notes in speech: none, the end of their chapter, or behind the sentence."""
NOTES: tuple[Notes, ...] = ("skip", "end", "inline")

# Nothing written holds this character, so it keeps the place of a mark while spaces are joined.
MARK = "\0"
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)）」』\]]{0,3}(?=\s|$|[\u3400-\u9fff])")
# Powers of ten and of units stay: their signs stand after a digit or a short word.
_SENTENCE_ENDS = tuple(".!?…。！？")
_SUPERSCRIPT = re.compile(
    r"(?:(?<=[.,;:!?…\"'”’)\]。，；：！？」』）])|(?<=[^\W\d_]{4}))[⁰¹²³⁴-⁹]{1,3}(?![⁰¹²³⁴-⁹\w])"
)
_CONTROLS = dict.fromkeys(range(9)) | {
    0xAD: None,
    0x200B: None,
    0x2060: None,
    0xFEFF: None,
}
_HAN = re.compile(r"[\u3400-\u9fff]")


@dataclass(frozen=True)
class NotedText:
    """A paragraph, and where notes are marked in it.

    Attributes:
        line: its text has no marks of notes.
        marks: the character before which each mark stands, and the key of its note.
    """

    line: Line
    marks: tuple[tuple[int, str], ...] = ()


@dataclass
class Note:
    """A note: its paragraphs, and the chapter in which it stands."""

    chapter: int
    place: Place
    texts: list[str] = field(default_factory=list)


def check_notes(notes: str) -> Notes:
    """Return ``notes``; raise ConfigError if it is none of ``NOTES``."""
    for known in NOTES:
        if notes == known:
            return known
    raise ConfigError(f"notes must be {', '.join(NOTES)}, not {shown(notes)}")


def without_controls(text: str) -> str:
    """Return a text without soft hyphens and other characters that are only for typesetting."""
    return text.translate(_CONTROLS)


def without_superscripts(text: str) -> str:
    """Return a text without the raised numbers of notes after words and marks; powers stay."""
    return _SUPERSCRIPT.sub("", text)


def with_notes(
    texts: Sequence[NotedText], notes: Mapping[str, Note], mode: Notes
) -> Iterator[Line]:
    """Yield the lines of a script, with its notes where ``mode`` wants them.

    A note that no text marks is spoken at the end of its chapter, whichever of the two it is.
    """
    if mode == "skip":
        yield from (each.line for each in texts)
        return
    left = dict(notes)
    chapters: dict[int, list[str]] = {}
    marked = {key for each in texts for _, key in each.marks}
    for key, note in notes.items():
        if key not in marked:
            chapters.setdefault(note.chapter, []).append(key)
    if mode == "end":
        seen = set()
        for each in texts:
            for _, key in each.marks:
                if key in notes and key not in seen:
                    seen.add(key)
                    chapters.setdefault(each.line.chapter, []).append(key)
    for number, each in enumerate(texts):
        chapter = each.line.chapter
        if mode == "inline":
            yield from _inline(each, left)
        else:
            yield each.line
        if number + 1 == len(texts) or texts[number + 1].line.chapter != chapter:
            for key in chapters.pop(chapter, ()):
                yield from _spoken(left.pop(key), chapter, Join.PARAGRAPH)


def _inline(noted: NotedText, left: dict[str, Note]) -> Iterator[Line]:
    """Yield a paragraph in parts, each followed by the notes that it marks."""
    line, begin = noted.line, 0
    cuts: dict[int, list[str]] = {}
    end = -1
    for offset, key in noted.marks:
        if key not in left:
            continue
        if _is_behind_sentence(line.text, offset):
            cuts.setdefault(offset, []).append(key)
            continue
        if end < offset:  # each part of the text is searched once
            found = _SENTENCE_END.search(line.text, offset)
            end = len(line.text) if found is None else found.end()
        cuts.setdefault(end, []).append(key)
    for end, keys in sorted(cuts.items()):
        text = line.text[begin:end].strip()
        if text:
            yield replace(line, text=text, join=Join.SENTENCE)
        is_last = not line.text[end:].strip()
        for key in keys:
            if key in left:
                join = line.join if is_last and key == keys[-1] else Join.SENTENCE
                yield from _spoken(left.pop(key), line.chapter, join)
        begin = end
    rest = line.text[begin:].strip()
    if rest or not cuts:
        yield replace(line, text=rest) if cuts else line


def _is_behind_sentence(text: str, offset: int) -> bool:
    """Return whether a mark stands right behind a sentence."""
    before = text[max(0, offset - 5) : offset].rstrip().rstrip("\"'”’)）」』]")
    return offset == len(text) or before.endswith(_SENTENCE_ENDS)


def _spoken(note: Note, chapter: int, join: Join) -> Iterator[Line]:
    """Yield the lines of a note; the first one begins with a word that says what it is."""
    texts = [text for text in note.texts if text]
    for number, text in enumerate(texts):
        if not number:
            text = f"注释：{text}" if _HAN.search(text) else f"Note: {text}"
        last = number + 1 == len(texts)
        yield Line(text, chapter=chapter, join=join if last else Join.PARAGRAPH, place=note.place)
