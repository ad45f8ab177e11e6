"""Find the header and the licence of Project Gutenberg around a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_START = re.compile(
    r"\*{3} {0,9}START OF (?:THE|THIS) PROJECT GUTENBERG|\*END ?\*? ?THE SMALL PRINT",
    re.IGNORECASE,
)
_END = re.compile(
    r"\*{3}\s{0,9}END OF (?:THE|THIS) PROJECT GUTENBERG|"
    r"\s{0,99}End of (?:the |this )?Project Gutenberg(?:['’]s)?\b",
    re.IGNORECASE,
)
_FIELD = re.compile(r"(Title|Author): {1,9}(\S.{0,300})")
_NAME = re.compile(r"Project Gutenberg", re.IGNORECASE)
_HEADER = 400  # paragraphs in which the header ends
_LONGEST_HEADER = 30_000  # characters, where it is one paragraph
_LOOK = 400  # characters of a paragraph that are looked at


def work_in(texts: Sequence[str]) -> range:
    """Return the texts between the header and the licence; all of them without these.

    Args:
        texts: paragraphs or lines, in order.
    """
    first, last = 0, len(texts)
    for number, text in enumerate(texts[:_HEADER]):
        if _START.search(text[:_LONGEST_HEADER]):
            first = number + 1
    for number in range(first, len(texts)):
        if _END.match(texts[number][:_LOOK]):
            last = number
            break
    return range(first, last)


def is_of_gutenberg(texts: Sequence[str]) -> bool:
    """Return whether a text says at its beginning that it is of Project Gutenberg."""
    return any(_NAME.search(text[:_LOOK]) for text in texts[:20])


def told_fields(texts: Sequence[str]) -> dict[str, str]:
    """Return ``Title`` and ``Author``, as the header tells them."""
    fields: dict[str, str] = {}
    for text in texts:
        found = _FIELD.match(text[:_LOOK])
        if found is not None:
            fields.setdefault(found[1], found[2].strip())
    return fields
