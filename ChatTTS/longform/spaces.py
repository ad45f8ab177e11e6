"""Join the lines of a paragraph."""

from __future__ import annotations

import re

_HAN_BREAK = re.compile(r"(?<=[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef])[^\S\n]{0,99}\n\s*")
_SPACE = re.compile(r"\s+")


def unwrapped(text: str) -> str:
    """Return a paragraph on one line; a break between Chinese characters leaves no space."""
    return _SPACE.sub(" ", _HAN_BREAK.sub("", text)).strip()
