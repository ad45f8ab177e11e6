"""Paths, options and bounds of versions in commands, and what else has signs in a word.

"~/.bashrc", "--verbose" and "^1.2"; "$HOME/bin", "*.pyc", "std::map" and "10.1000/ab.2023.17".
"""

from __future__ import annotations

import re

from ..number_words import english_number
from ..spans import span

_SIGNS = {
    "~": "tilde", "/": "slash", "\\": "backslash", ".": "dot", ":": "colon", "-": "dash",
    "_": "underscore", "*": "star", "$": "dollar", "|": "bar", "^": "caret", "=": "equals",
    "+": "plus", "#": "hash", "%": "percent", "&": "and", "@": "at", "<": "less than",
    ">": "more than", "?": "question mark", "!": "exclamation mark", "(": "", ")": "", "{": "",
    "}": "",
}  # fmt: skip
_PIECE = re.compile(r"\d+|[A-Za-z]+|[^\w\s]|_")
_BOUNDS = {"^": "caret", "~=": "tilde equals"}


def _say(match: re.Match[str]) -> str:
    pieces = _PIECE.findall(match[0])
    return " ".join(
        english_number(piece) if piece.isdigit() else _SIGNS.get(piece, piece) for piece in pieces
    )


COMMAND_LINES = (
    span(
        "paths",
        r"(?a)(?<![\w./~:\\-])(?:(?:~|\.{1,2})/(?=[\w.*-])|/(?=[a-z][\w.-]{1,30}/[\w.*-]))"
        r"[\w.*-]{1,60}(?:/[\w.*-]{1,60}){0,16}/?(?<![.-])(?:\?[\w=&%+-]{1,120})?"
        r"|(?<![\w./\\])[A-Z]:\\(?:[\w.-]{1,60}(?:\\[\w.-]{1,60}){0,16}(?<![.-]))?",
        _say,
    ),
    span(
        "options",
        r"(?:(?<=\s)(?<![=<>]\s)|(?<=[\"'(\[=])|(?<=[a-z]/)|\A)(?:--[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){0,6}|"
        r"-(?:[a-zA-Z]{1,2}|[a-zA-Z]?\d{1,3}[a-z]|[A-Z][a-z]{2,20}|[A-Za-z]\d{1,3}))(?![\w'’-])",
        _say,
        without_digits=True,
    ),
    span(
        "bounds of versions",
        r"(?:(?<=[\s\"'(@])|\A)\^(?=\d+\.\d)|(?<=\w)~=(?=\d)",
        lambda match: f" {_BOUNDS[match[0]]} ",
    ),
)

# In no word of a language: a word that has one of these is said sign by sign. A slash makes one of
# a word that has a dot as well, with two letters or more beside it.
_SIGN_IN_WORD = (
    r"\\|(?<![|\s])\|(?=[^\s|])|\|(?=\w)|(?<![A-Za-z])\$(?=[A-Za-z{(])|\*\.(?=\w)|\.\*(?=\S)|"
    r"::(?=\w)|(?:[A-Za-z]{2}|\d)\.(?!\d{1,3}[A-Z]/)(?:[A-Za-z]{2}|\d)[^\s/]{0,30}[A-Za-z][^\s/]{0,30}/|"
    r"/[^\s/]{0,30}[A-Za-z][^\s/.]{0,30}\.\w\w"
)
_IN_WORD = r"[!#-&(-+\--:<-~]"  # ASCII but for quotes, commas and semicolons
EXPRESSIONS = (
    span(
        "absolute values",
        r"\|(?<![\w|]\|)(\w{1,8})\|(?![\w|])",
        lambda match: f"the absolute value of {match[1]}",
    ),
    span(
        "words with signs in them",
        rf"(?a)(?<![^\s\"'(,;])(?={_IN_WORD}{{0,40}}?(?:{_SIGN_IN_WORD}))"
        rf"(?={_IN_WORD}{{0,40}}?[A-Za-z]){_IN_WORD}{{1,80}}(?<![.?!:)])",
        _say,
        without_digits=True,
    ),
    span(
        "carets and stars alone",
        r"\*(?= [A-Za-z])(?<=[^\s\d] \*)(?<!\b[a-z] \*)(?<![)\]] \*)|\^(?=\s)(?<!\S\^)",
        lambda match: _SIGNS[match[0]],
        without_digits=True,
    ),
    span("dots before a name", r"\.(?=[A-Za-z]{2})(?<![^\s\"'(]\.)", "dot "),
)
