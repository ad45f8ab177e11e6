"""Control tags such as ``[laugh]``: one pair of brackets around word characters.

They are instructions to the model. Every rule on text applies to the plain pieces between them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection

logger = logging.getLogger(__name__)

TAG = re.compile(r"\[\w+\]")
_SPLIT = re.compile(rf"({TAG.pattern})")


def split_tags(text: str) -> list[str]:
    """``text`` as plain pieces (even positions, may be empty) and tags (odd positions)."""
    return _SPLIT.split(text)


def map_plain(text: str, change: Callable[[str], str]) -> str:
    """Apply ``change`` to the pieces between the tags; the tags stay as they are."""
    pieces = split_tags(text)
    pieces[::2] = [change(piece) if piece else piece for piece in pieces[::2]]
    return "".join(pieces)


def without_tags(text: str) -> str:
    """``text`` with a space in place of each tag."""
    return TAG.sub(" ", text)


def drop_unknown(text: str, known: Collection[str]) -> str:
    """Put a space in place of the tags that are not in ``known``, with one warning naming them.

    ``known`` holds tags with their brackets, as a tokenizer lists its special tokens.
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
