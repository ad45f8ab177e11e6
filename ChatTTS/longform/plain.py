"""Read plain text: paragraphs between blank lines."""

from __future__ import annotations

import re

from .script import Join, Line, Place, Script

_HAN_BREAK = re.compile(r"(?<=[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef])[^\S\n]{0,99}\n\s*")
_SPACE = re.compile(r"\s+")


def read_plain(text: str, name: str) -> Script:
    """Return a line for each paragraph; blank lines separate paragraphs."""
    lines: list[Line] = []
    paragraph: list[str] = []
    first = 0
    for number, written in enumerate([*text.splitlines(), ""], 1):
        if written.strip():
            first = first if paragraph else number
            paragraph.append(written)
        elif paragraph:
            whole = unwrapped("\n".join(paragraph))
            lines.append(Line(whole, join=Join.PARAGRAPH, place=Place(name, first)))
            paragraph = []
    return Script(tuple(lines))


def unwrapped(text: str) -> str:
    """Return a paragraph on one line; a break between Chinese characters leaves no space."""
    return _SPACE.sub(" ", _HAN_BREAK.sub("", text)).strip()
