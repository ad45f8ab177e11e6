"""So many out of so many: "a score of 45/50", "attempt 3/5"; and pressures of blood."""

from __future__ import annotations

import re

from ..number_words import english_number
from ..spans import span

_PAIR = r"(?P<first>\d{1,4}(?:\.\d{1,2})?)\s?/\s?(?P<second>\d{1,4})(?![\w/]|\.\d)"
_RATED = (
    r"(?:g[ai]v(?:e|es|ing) it|scor(?:e|es|ed|ing)|marks?|grades?|rat(?:ed|ing|ings)|"
    r"quiz|exam|result)"
)
_SERIES = (
    r"(?:attempts?|tr(?:y|ies)|step|page|part|slide|question|round|retry|stage|phase|task|chunk|"
    r"epoch|batch|day|week|volume|episode|section|player|level)"
)
_POINTS = r"(?:points?|pts|marks?|stars?|correct|questions?|tests?|passed)"
_WHOLE = (*range(10, 101, 10), 25, 75, 120, 150, 200)


def _out_of(match: re.Match[str]) -> str | None:
    first, second = match["first"], match["second"]
    if float(first) > int(second):
        return None
    return f"{english_number(first)} out of {english_number(second)}"


def _alone(match: re.Match[str]) -> str | None:
    """Return a score without a word beside it: a numerator like that is neither month nor part."""
    first, second = match["first"], match["second"]
    is_score = int(second) in _WHOLE and 12 < float(first) < int(second)
    # 50/50 and 80/20 are sayings
    return _out_of(match) if is_score else None


_OVER = r"\g<first> over \g<second>"

SCORES = (
    span("made of tried", r"(?<=\d)-(?=\d{1,2}\s(?:FG|3PT|3P|FT)s?\b)", " of "),
    span(
        "sets with a tie break",
        r"(?<![\w.-])(\d)[-–](\d)\s?\((\d{1,2})\)(?![\w(])",
        lambda match: (
            f"{english_number(match[1])} to {english_number(match[2])}, {english_number(match[3])}"
        ),
    ),
    # Of a season, or of a game: won, lost and drawn.
    span(
        "records",
        r"(?<![\w.,/-])(?!(?:\d-?){7}|\d\d-\d\d-\d\d\b)\d{1,3}(?:-\d{1,3}){2,3}(?![\w-]|[./,]\d)",
        lambda match: ", ".join(map(english_number, match[0].split("-"))),
    ),
    span("meters", r"(?<=\bin )(\d\d?)/([248]|16)(?=\s(?:time|meter)\b|[,;.](?!\d))", r"\1 \2"),
    span("so much of a memory", r"(?<=[KMGT][Bi])\s?/\s?(?=\d)|(?<=\dG)/(?=\d{1,4}G)", " of "),
    span(
        "blood pressures",
        _PAIR,
        _OVER,
        behind=r"\b(?:[Pp]ressure|BP|bp)(?:\sof|\swas|:)?\s\Z",
    ),
    span("pressures in mmHg", rf"(?<![\w/.,]){_PAIR}(?=\s?mm ?Hg)", _OVER),
    span(
        "numbers of a series",
        rf"(?<![\d/.])(?!\d{{1,4}}/\d{{1,4}}/){_PAIR}",
        r"\g<first> of \g<second>",
        behind=rf"(?i)\b{_SERIES}(?:\s|:\s?)\Z",
    ),
    span(
        "scores",
        _PAIR,
        _out_of,
        behind=rf"(?i)\b{_RATED}(?:\s(?:of|was|is|a|an|us|it|me|them)){{0,2}}:?\s\Z",
    ),
    span("counted points", rf"(?<![\w/.,]){_PAIR}(?=\s{_POINTS}\b)", _out_of),
    span("scores alone", rf"(?<![\w/.,-]){_PAIR}(?!\s(?:in|inch)\b|\")", _alone),
)
