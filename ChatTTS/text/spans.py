"""Spans: forms that are found in a text as it was written, each of one class, and said at once.

Every class looks at the written text, never at what another class made of it. Where two spans
overlap, that of the class with the higher rank stands.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ..errors import shown
from .readers import DIGIT

logger = logging.getLogger(__name__)


LOOK_BACK = 48  # characters; about what a word still belongs to


class SpanClass(NamedTuple):
    """A class of written forms.

    Attributes:
        kind: as a warning names it.
        pattern: matches a span. What it only looks at is no part of the span.
        say: returns the words of a match, or ``None`` where it is no form of this class after all.
        without_digits: whether a text without a digit may have a span. Most texts have no digit,
            and most classes are not looked for in them.
        behind: where it is given, finds the words before a span that make it one of this class.
    """

    kind: str
    pattern: re.Pattern[str]
    say: Callable[[re.Match[str]], str | None]
    without_digits: bool
    behind: re.Pattern[str] | None


class Span(NamedTuple):
    """The characters from ``start`` to ``end`` of a text, and the words for them."""

    start: int
    end: int
    words: str


def span(
    kind: str,
    pattern: str | re.Pattern[str],
    words: str | Callable[[re.Match[str]], str | None],
    without_digits: bool | None = None,
    behind: str | re.Pattern[str] | None = None,
) -> SpanClass:
    """Return the class of what ``pattern`` matches.

    Args:
        kind: as a warning names it.
        words: says a match, as in :class:`SpanClass`, or is a template of ``re`` for the words.
        without_digits: whether a text without a digit may have a span. Where that is not said, it
            may where the pattern has no ``\\d``.
        behind: what stands before a span, in its last characters; it ends in ``\\Z`` where it
            must stand directly before the span.
    """
    compiled = re.compile(pattern)
    say = words if callable(words) else partial(_expand, words)
    if without_digits is None:
        without_digits = r"\d" not in compiled.pattern
    words_before = None if behind is None else re.compile(behind)
    return SpanClass(kind, compiled, say, without_digits, words_before)


def before(match: re.Match[str], characters: int = LOOK_BACK) -> str:
    """Return what stands in the text before a match, as far as it is looked at."""
    return match.string[max(0, match.start() - characters) : match.start()]


def _expand(template: str, match: re.Match[str]) -> str:
    return match.expand(template)


def find_spans(text: str, classes: Sequence[SpanClass]) -> list[Span]:
    """Return the spans of ``text`` in order; none overlap.

    Args:
        classes: in the order of their ranks, the highest one first. Where one raises, it has no
            more spans, with a warning.
    """
    taken = bytearray(len(text))
    spans: list[Span] = []
    has_digits = DIGIT.search(text) is not None
    for each in classes:
        if not has_digits and not each.without_digits:
            continue
        try:
            for match in each.pattern.finditer(text):
                start, end = match.span()
                if any(taken[start:end]) or (each.behind and not each.behind.search(before(match))):
                    continue
                if (words := each.say(match)) is None:
                    continue
                taken[start:end] = b"\1" * (end - start)
                spans.append(Span(start, end, words))
        except Exception as error:  # a fault of ours that no test has found
            logger.warning("the class of %s failed on %s: %r", each.kind, shown(text), error)
    return sorted(spans)


def read_spans(
    text: str, classes: Sequence[SpanClass], gap: str, apart: Sequence[re.Pattern[str]] = ()
) -> str:
    """Return ``text`` with the words of its spans in their places.

    Args:
        gap: what divides the words of a span from a letter or digit beside it.
        apart: where the first one matches at what stands around the beginning of a span, and where
            the second one matches at what stands around its end, a comma divides both.
    """
    pieces, place = [], 0
    for start, end, words in find_spans(text, classes):
        if apart:
            begins = apart[0].match(text[start - 1 : start] + words[:1])
            ends = apart[1].match(words[-1:] + text[end : end + 2])
            words = "，" * bool(begins) + words + "，" * bool(ends)
        first = gap if words[:1].isalnum() and text[start - 1 : start].isalnum() and start else ""
        last = gap if words[-1:].isalnum() and text[end : end + 1].isalnum() else ""
        pieces += [text[place:start], first, words, last]
        place = end
    return "".join([*pieces, text[place:]])
