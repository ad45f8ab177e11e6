"""Readers in a row: each turns one kind of notation into words and leaves everything else."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..errors import shown

logger = logging.getLogger(__name__)

# What matches, and the words for it: a template of ``re``, or a function of the match.
Rule = tuple[re.Pattern[str], "str | Callable[[re.Match[str]], str]"]


def rule(pattern: str, words: str | Callable[[re.Match[str]], str]) -> Rule:
    """Return the rule that gives what ``pattern`` matches these words."""
    return re.compile(pattern), words


DIGIT = re.compile(r"\d")


class Reader(NamedTuple):
    """A reader of one kind of notation.

    Attributes:
        kind: as a warning names it.
        read: puts it into words; or the rules that do.
        needs_digits: whether it leaves every text without a digit as it is. Most texts have no
            digit, and it is not asked for them.
    """

    kind: str
    read: Callable[[str], str] | Sequence[Rule]
    needs_digits: bool = False


def either(names: Iterable[str]) -> str:
    """Return a pattern of one of ``names``, of which the longest that fits is taken."""
    return "|".join(map(re.escape, sorted(names, key=len, reverse=True)))


def rewrite(text: str, rules: Sequence[Rule]) -> str:
    """Return ``text`` with the matches of each rule replaced, one rule after the other."""
    for pattern, words in rules:
        text = pattern.sub(words, text)
    return text


def read_all(text: str, readers: Sequence[Reader]) -> str:
    """Return ``text`` after all ``readers``, in order.

    A reader that raises leaves the text as it was, with a warning: a fault of one reader costs the
    reading of one notation, and not a book.
    """
    for reader in readers:
        # Asked each time, since a reader may write digits, such as those of a power.
        if reader.needs_digits and not DIGIT.search(text):
            continue
        try:
            read = reader.read
            text = read(text) if callable(read) else rewrite(text, read)
        except Exception as error:  # a fault of ours that no test has found
            logger.warning(
                "the reader of %s failed on %s, which is passed on as it was: %r",
                reader.kind,
                shown(text),
                error,
            )
    return text
