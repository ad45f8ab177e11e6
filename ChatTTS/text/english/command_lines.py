"""Paths, options and bounds of versions in commands: "~/.bashrc", "--verbose", "^1.2"."""

from __future__ import annotations

import re

from ..numbers import english_number
from ..spans import SpanClass

_SIGNS = {
    "~": "tilde", "/": "slash", "\\": "backslash", ".": "dot", ":": "colon", "-": "dash",
    "_": "underscore", "*": "star",
}  # fmt: skip
_PIECE = re.compile(r"\d+|[A-Za-z]+|[~/\\.:_*-]")
_BOUNDS = {"^": "caret", "~=": "tilde equals"}


def _say(match: re.Match[str]) -> str:
    pieces = _PIECE.findall(match[0])
    return " ".join(
        english_number(piece) if piece.isdigit() else _SIGNS.get(piece, piece) for piece in pieces
    )


COMMAND_LINES = (
    SpanClass(
        "paths",
        re.compile(
            r"(?<![\w./~:\\-])(?:(?:~|\.{1,2})/(?=[\w.*-])|/(?=[a-z][\w.-]{1,30}/[\w.*-]))"
            r"[\w.*-]{1,60}(?:/[\w.*-]{1,60}){0,16}/?(?<![.-])"
            r"|(?<![\w./\\])[A-Z]:\\(?:[\w.-]{1,60}(?:\\[\w.-]{1,60}){0,16}(?<![.-]))?",
            re.ASCII,
        ),
        _say,
        without_digits=True,
    ),
    SpanClass(
        "options",
        re.compile(
            r"(?:(?<=\s)(?<![=<>]\s)|(?<=[\"'(\[=])|\A)(?:--[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){0,6}|-[a-zA-Z])"
            r"(?![\w'’-])"
        ),
        _say,
        without_digits=True,
    ),
    SpanClass(
        "bounds of versions",
        re.compile(r"(?:(?<=[\s\"'(@])|\A)\^(?=\d+\.\d)|(?<=\w)~=(?=\d)"),
        lambda match: f" {_BOUNDS[match[0]]} ",
    ),
)
