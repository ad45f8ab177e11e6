"""Full stops of abbreviations that may end a sentence as well."""

from __future__ import annotations

import re

_CAPITAL_NEXT = re.compile(r"[\"'”’)]{0,8}(?:\s{1,8}[\"'“‘]?[A-Z]|\s{0,8}\Z)")


def may_end_sentence(text: str, end: int) -> bool:
    """Return whether a sentence may begin at ``end``, or the text is over."""
    return _CAPITAL_NEXT.match(text, end) is not None
