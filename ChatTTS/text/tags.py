"""Control tags such as ``[laugh]``: one pair of brackets around word characters.

They are instructions to the model. All rules for texts apply to the plain pieces between them.
Breaks at the borders of an utterance are not given to the model: at the end they make it find no
end, and at the beginning they have no effect. They become silence of a fixed length.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection
from typing import NamedTuple

logger = logging.getLogger(__name__)

# Capitals and digits are a word of the text: "[NO2]", "[ERROR]".
TAG = re.compile(r"\[(?![A-Z][A-Z\d]*\])\w+\]")
# A laugh belongs to the sentence before it; every other tag belongs to the words after it.
LAUGH = "[laugh]"
# Seconds of silence: the middle of what speakers use.
BREAK_SECONDS = {"[uv_break]": 0.3, "[v_break]": 0.3, "[lbreak]": 0.6, "[llbreak]": 0.9}

_SPLIT = re.compile(rf"({TAG.pattern})")


def split_tags(text: str) -> list[str]:
    """Split ``text`` into plain pieces (even positions, may be empty) and tags (odd positions)."""
    return _SPLIT.split(text)


def map_plain(text: str, change: Callable[[str], str]) -> str:
    """Apply ``change`` to the pieces between the tags; the tags stay as they are."""
    pieces = split_tags(text)
    pieces[::2] = [change(piece) if piece else piece for piece in pieces[::2]]
    return "".join(pieces)


def without_tags(text: str) -> str:
    """Return ``text`` with a space in place of each tag."""
    return TAG.sub(" ", text)


def blank_tags(text: str) -> str:
    """Return ``text`` with spaces in place of tags, so that all else keeps its place."""
    return TAG.sub(lambda tag: " " * len(tag[0]), text)


class BorderedText(NamedTuple):
    """A text without the breaks at its borders, and their seconds of silence."""

    before: float
    spoken: str
    after: float


def without_border_breaks(text: str) -> BorderedText:
    """Return ``text`` as the model gets it.

    Other tags at its end are dropped too; laughs stay.
    """
    pieces = split_tags(text)
    first, last = 0, len(pieces) - 1
    while first < last and not pieces[first].strip() and pieces[first + 1] != LAUGH:
        first += 2
    while last > first and not pieces[last].strip() and pieces[last - 1] != LAUGH:
        last -= 2
    leading, trailing = pieces[1:first:2], pieces[last + 1 :: 2]
    settings = "".join(tag for tag in leading if tag not in BREAK_SECONDS)
    spoken = settings + "".join(pieces[first : last + 1]).strip()
    return BorderedText(_seconds(leading), spoken, _seconds(trailing))


def _seconds(breaks: list[str]) -> float:
    return sum(BREAK_SECONDS.get(tag, 0.0) for tag in breaks)


def drop_unknown(text: str, known: Collection[str]) -> str:
    """Replace the tags that are not in ``known`` by spaces, with one warning.

    ``known`` has tags with their brackets, as a tokenizer lists its special tokens.
    """
    unknown = sorted({tag for tag in TAG.findall(text) if tag not in known})
    if not unknown:
        return text
    logger.warning(
        "the model does not know the control tag%s %s; left out",
        "s" if len(unknown) > 1 else "",
        ", ".join(unknown),
    )
    return TAG.sub(lambda match: match[0] if match[0] in known else " ", text)
