"""Moves of chess with their numbers: "1. e4 c5 2. Nf3", "23.Qxh7+!", "O-O"."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..spans import span

_WORDS = {
    "K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight", "x": "takes",
    "=": "becomes", "+": "check", "#": "mate", "O-O-O": "castles long", "O-O": "castles",
}  # fmt: skip
_MOVE = r"(?:(?:[KQRBN][a-h]?[1-8]?x?|[a-h]x)?[a-h][1-8](?:=[QRBN])?|O-O(?:-O)?)[+#]?"
# Of a game: a number or a second move stands beside it, since "B2" and "e4" are other names, too.
_GAME = re.compile(
    rf"\d\.{{1,3}}\s?{_MOVE}(?!\w)|\b[KQRBN][a-h]?x?[a-h][1-8]\b.{{1,40}}\b[a-h][1-8]\b"
)
_PIECE = re.compile(r"O-O(?:-O)?|\d|[a-hKQRBNx=+#]")


def _say(match: re.Match[str]) -> str | None:
    start, end = match.span()
    if not match["number"] and not _GAME.search(match.string, max(0, start - 60), end + 60):
        return None
    pieces = [match["number"] and f"{match['number']},", *_PIECE.findall(match["move"])]
    said = " ".join(_WORDS.get(each, each.upper()) for each in pieces if each)
    said = re.sub(r"\d+", lambda number: english_number(number[0]), said)
    return said if match["next"] is None else f"{said},"


CHESS = (
    span(
        "moves of chess",
        rf"(?<![\w./#-])(?:(?P<number>\d{{1,3}})\.(?:\.\.|…)?\s?)?(?P<move>{_MOVE})(?![\w'’/-]|\.\w)"
        rf"[!?]{{0,2}}(?P<next>(?=\s(?:\d{{1,3}}\.|{_MOVE}(?!\w))))?",
        _say,
        without_digits=True,
    ),
)
