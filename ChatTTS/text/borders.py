"""Borders between utterances of a text: paragraphs, and breaks that are written there."""

from __future__ import annotations

import re
from enum import Enum, auto

from .pauses import MARK, PARAGRAPH, has_length
from .splitter import words_in

# A mark or tag that has not ended may be no word.
_OPEN = re.compile(r"\[[^\[\]]{0,64}$|<[^<>]{0,64}$")


class Border(Enum):
    """The part of a text between the last word of one utterance and the first one of the next."""

    NONE = auto()  # also a pause, which either text has
    PARAGRAPH = auto()  # a blank line, without a pause or break
    BREAK = auto()  # a break that the second text begins with


def border_between(first: str, second: str) -> Border | None:
    """Return what divides two texts that follow each other.

    ``None`` while the second one has no word yet.
    """
    words = words_in(_OPEN.sub("", second))
    if not words:
        return None
    before = words_in(first)
    if not before:
        return Border.NONE
    end, gap = before[-1].end(), second[: words[0].start()]
    marks = list(MARK.finditer(first[end:])) + list(MARK.finditer(gap))
    if any(map(has_length, marks)):
        is_break = any(mark["break"] is not None for mark in MARK.finditer(gap))
        return Border.BREAK if is_break else Border.NONE
    between = MARK.sub("|", first[end:] + gap)
    return Border.PARAGRAPH if PARAGRAPH.search(between) else Border.NONE
