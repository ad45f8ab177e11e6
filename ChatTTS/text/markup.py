"""Remove the marks of markdown and HTML: they are for reading and must not be spoken."""

from __future__ import annotations

import re
from collections.abc import Collection

from .html_marks import strip_html
from .tags import map_plain

_LINK = re.compile(r"!?(\[([^\[\]\n]+)\])\((?:https?:|mailto:|www\.|[./#])[^\s()\[\]]*\)")
_COLOURS = re.compile(r"\x1b\[[0-9;]{1,20}[A-Za-z]")  # of a terminal
# The year of a Chinese decree, such as [2023]12号, which is no control tag.
_DECREE = re.compile(r"\[(\d{4})\](?=\s?第?\d{1,5}号)")
_LINE_MARKS = (
    (re.compile(r"^[ \t]*(?:```|~~~)[ \t]*[\w+-]*[ \t]*$", re.MULTILINE), ""),  # code fences
    (re.compile(r"^[ \t]*(?:[-*_=][ \t]?){3,}$", re.MULTILINE), ""),  # rules
    (re.compile(r"^(?:[ \t]*>)+(?![$€£]?\d)[ \t]?", re.MULTILINE), ""),  # quotations
    (re.compile(r"^[ \t]*(?:#{1,6}|[-*+•])[ \t]+", re.MULTILINE), ""),  # headings, list items
    (re.compile(r"^[ \t]*(\d{1,3})[.)](?=[ \t]+\S)", re.MULTILINE), r"\1,"),  # numbered items
)
_INLINE_MARKS = (
    # "x**n" and "idx**2" are powers
    (
        re.compile(
            r"(?<!\b\w)(?<![)\]])(?!(?<=[A-Za-z\d_])\*\*\d{1,2}(?![\d*]))\*\*|\*\*(?![A-Za-z0-9_(])|~~|`+"
        ),
        "",
    ),
    (re.compile(r"(?<![\w*])\*(?=[^\s.])([^*\n]+)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<!\w)(_{1,2})(?=[^\s_])(.{1,200}?)(?<=[^\s_])\1(?!\w)"), r"\2"),
)


def strip_markup(text: str, known_tags: Collection[str] | None = None) -> str:
    """Return ``text`` without markdown and HTML; a link keeps its label, and control tags stay.

    ``[label](address)`` is a link unless ``[label]`` is among ``known_tags``.
    """

    def label(match: re.Match[str]) -> str:
        # without spaces, the label and its neighbours could form a control tag
        return match[0] if known_tags and match[1] in known_tags else f" {match[2]} "

    text = _DECREE.sub(r"〔\1〕", strip_html(_COLOURS.sub("", text)))
    text = _LINK.sub(label, text)
    for pattern, replacement in _LINE_MARKS:
        text = pattern.sub(replacement, text)
    return map_plain(text, _without_inline_marks)


def _without_inline_marks(text: str) -> str:
    for pattern, replacement in _INLINE_MARKS:
        text = pattern.sub(replacement, text)
    return text
