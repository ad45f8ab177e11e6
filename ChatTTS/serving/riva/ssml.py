"""Extract the text of SSML."""

from __future__ import annotations

import html
import re

_SSML = re.compile(r"\s*(<\?xml[^>]*>\s*)?<speak[\s>]", re.IGNORECASE)
_NAME = re.compile(r"/?\s*([A-Za-z]*)")
# Tags that separate words.
_BREAKS = {"break", "p", "s", "speak"}
# Comments, CDATA and instructions: each ends at its own mark, whatever is inside.
_ENCLOSED = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"))


def plain_text(text: str) -> str:
    """Return the spoken text of SSML; return any other text unchanged.

    All tags, comments and instructions are dropped. Entities and CDATA become text. The time is
    linear in the length, also for malicious input.
    """
    if not _SSML.match(text):
        return text
    parts = []
    position = 0
    while position < len(text):
        start = text.find("<", position)
        if start < 0:
            parts.append(html.unescape(text[position:]))
            break
        parts.append(html.unescape(text[position:start]))
        spoken, position = _markup(text, start)
        parts.append(spoken)
    return "".join(parts).strip()


def _markup(text: str, start: int) -> tuple[str, int]:
    """Return the text of the markup that begins at ``start``, and the position after it."""
    for opening, closing in _ENCLOSED:
        if text.startswith(opening, start):
            inner = start + len(opening)
            end = text.find(closing, inner)
            end = len(text) if end < 0 else end
            return text[inner:end] if "CDATA" in opening else "", end + len(closing)
    following = text[start + 1 : start + 2]
    if not (following.isalpha() or following in ("/", "!")):
        return "<", start + 1  # a "less than" that was not written as an entity
    end = text.find(">", start)
    if end < 0:
        return "", len(text)
    name = _NAME.match(text, start + 1)
    is_break = name is not None and name[1].lower() in _BREAKS
    return " " if is_break else "", end + 1
