"""Remove the tags and entities of HTML, which subtitles and pasted pages hold."""

from __future__ import annotations

import html
import re

from .readers import Rule, rewrite

_BLOCKS = (
    "address|blockquote|br|caption|dd|div|dl|dt|figcaption|h[1-6]|hr|li|ol|p|pre|table|td|th|tr|ul"
)
_INLINE = (
    "a|abbr|article|aside|b|big|body|center|cite|code|del|dfn|em|figure|font|footer|head|header|html|"
    "i|img|ins|kbd|label|main|mark|meta|nav|q|rb|rp|rt|ruby|s|samp|section|small|span|strike|strong|"
    "sub|sup|tbody|tfoot|thead|title|tt|u|var|wbr"
)
# Attributes have values: "a <b and c> d" has no tag.
_ATTRIBUTES = r"""(?:\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>=]+))*\s*/?"""
_SUPERSCRIPTS = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_TAGS: list[Rule] = [
    (
        re.compile(r"<sup>([0-9+-]{1,9})</sup>", re.IGNORECASE),
        lambda match: match[1].translate(_SUPERSCRIPTS),
    ),
    (re.compile(rf"</?(?:{_BLOCKS}){_ATTRIBUTES}>", re.IGNORECASE), "\n"),
    (re.compile(rf"</?(?:{_INLINE}){_ATTRIBUTES}>", re.IGNORECASE), ""),
    # Others only as a pair.
    (re.compile(r"<([a-z][\w-]{0,30})(?:[\s=:][^<>]{0,200})?>([^<>]*)</\1\s*>"), r"\2"),
]
_VOID = re.compile(rf"<(?:br|hr){_ATTRIBUTES}>", re.IGNORECASE)
_ELEMENT = re.compile(rf"<(?:{_BLOCKS}|{_INLINE}){_ATTRIBUTES}>", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
# Their contents are not for people.
_UNSEEN = (("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>"))


def strip_html(text: str) -> str:
    """Return ``text`` without tags, comments and scripts of HTML; entities become characters."""
    if "<" in text:
        for start, end in _UNSEEN:
            text = _without(text, start, end)
        text = _VOID.sub("\n", text)
        # One tag alone is rather what the text is about: "The tag <p> defines a paragraph."
        if "</" in text or len(_ELEMENT.findall(text)) > 1:
            text = rewrite(text, _TAGS)
    return _ENTITY.sub(_character, text) if "&" in text else text


def _without(text: str, start: str, end: str) -> str:
    """Return ``text`` without all that stands from a ``start`` to the next ``end``."""
    parts, place = [], 0
    while (first := text.find(start, place)) >= 0 and (last := text.find(end, first)) >= 0:
        parts.append(text[place:first])
        place = last + len(end)
    return "".join([*parts, text[place:]])


def _character(match: re.Match[str]) -> str:
    character = html.unescape(match[0])
    # An unknown one stays; a bracket could form a control tag with its neighbours.
    return " " if character in "[]" or not character.isprintable() else character
