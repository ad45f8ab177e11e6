"""Texts that make a regular expression work: long repetitions of what it looks for itself.

A pattern takes quadratic time where two of its parts can share a run of characters in many ways, or
where every place of a run is a new beginning. Both show on repetitions of its own parts.
"""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

_MODULES = ("re._constants", "re._parser")
if sys.version_info < (3, 11):
    _MODULES = ("sre_constants", "sre_parse")
constants: Any = importlib.import_module(_MODULES[0])
parser: Any = importlib.import_module(_MODULES[1])

_MAX_PARTS = 60
_CATEGORIES = {
    constants.CATEGORY_DIGIT: "7",
    constants.CATEGORY_NOT_DIGIT: "x",
    constants.CATEGORY_SPACE: " ",
    constants.CATEGORY_NOT_SPACE: "x",
    constants.CATEGORY_WORD: "x",
    constants.CATEGORY_NOT_WORD: ",",
}
# What stands behind a long run, so that a match that wants more than the run fails.
ENDINGS = ("", "\0", "x")


def parts_of(pattern: re.Pattern[str]) -> list[str]:
    """Return short texts that parts of a pattern match, and texts of neighbouring parts."""
    found: dict[str, None] = {}
    parsed = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    for sequence in _sequences(parsed):
        samples = [_sample(item) for item in sequence]
        for first in range(len(samples)):
            for last in range(first + 1, min(first + 4, len(samples)) + 1):
                found["".join(samples[first:last])] = None
        found["".join(samples)] = None
    return [part for part in found if part][:_MAX_PARTS]


def seconds(pattern: re.Pattern[str], text: str) -> float:
    """Return the seconds of this thread that a search for all matches takes."""
    start = time.thread_time()
    for _ in pattern.finditer(text):
        pass
    return time.thread_time() - start


def _sequences(parsed: Any) -> Iterator[list[Any]]:
    items = list(parsed)
    yield items
    for _, argument in items:
        for inner in _inner(argument):
            yield from _sequences(inner)


def _inner(argument: Any) -> Iterator[Any]:
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _inner(part)


def _sample(item: tuple[Any, Any]) -> str:
    """Return a text that an item of a parsed pattern matches, as far as it can be said."""
    kind, argument = item
    if kind is constants.LITERAL:
        return chr(argument)
    if kind is constants.NOT_LITERAL:
        return "x" if argument != ord("x") else "y"
    if kind is constants.ANY:
        return "x"
    if kind is constants.IN:
        return _of_class(argument)
    if kind is constants.BRANCH:
        return _sample_of(argument[1][0])
    if kind is constants.SUBPATTERN:
        return _sample_of(argument[-1])
    if kind in _REPEATS:
        least, inner = int(argument[0]), argument[2]
        return _sample_of(inner) * max(1, min(least, 3))
    return ""


_REPEATS = {
    getattr(constants, name)
    for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
    if hasattr(constants, name)
}


def _sample_of(sequence: Iterable[Any]) -> str:
    return "".join(map(_sample, sequence))


def _of_class(members: list[Any]) -> str:
    negated = members[0][0] is constants.NEGATE
    if negated:
        excluded = re.compile(f"[{''.join(map(_source, members[1:]))}]")
        return next((char for char in "x7 ,\n\0" if not excluded.match(char)), "")
    kind, argument = members[0]
    if kind is constants.LITERAL:
        return chr(argument)
    if kind is constants.RANGE:
        return chr(argument[0])
    return _CATEGORIES.get(argument, "x")


def _source(member: tuple[Any, Any]) -> str:
    kind, argument = member
    if kind is constants.LITERAL:
        return re.escape(chr(argument))
    if kind is constants.RANGE:
        return f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
    sources: dict[Any, str] = {
        constants.CATEGORY_DIGIT: r"\d",
        constants.CATEGORY_NOT_DIGIT: r"\D",
        constants.CATEGORY_SPACE: r"\s",
        constants.CATEGORY_NOT_SPACE: r"\S",
        constants.CATEGORY_WORD: r"\w",
        constants.CATEGORY_NOT_WORD: r"\W",
    }
    return sources[argument]
