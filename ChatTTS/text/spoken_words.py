"""The words of a caller's text, and which of them each spoken word belongs to.

A written word may be spoken as several ("$5" as "five dollars"), and the refine pass may change the
words of an utterance. So the spoken words are compared with the written ones in order: equal words
belong together, and what lies between equal words is divided by the readings of single words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from .pronunciation.inline import MARK, without_symbols
from .tags import blank_tags

_HAN = r"\u3040-\u30ff\u3400-\u9fff"
# A Chinese character is a word, and so is each run of other characters between white space.
_WRITTEN = re.compile(rf"[{_HAN}]|[^\s{_HAN}]+")
_SPOKEN = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+(?:['’][^\W_{_HAN}]+)*")
# Marks that are never spoken, at the borders of a word.
_MARKS = ".,;:!?…—–-\"'“”‘’()[]{}<>*_#`~|，。！？、；：（）《》【】「」『』"
_LETTER = re.compile(r"\w")

# How far ahead two texts are searched for the next words that are equal.
_AHEAD = 24

# Returns the spoken form of a written word.
Reader = Callable[[str], str]


@dataclass(frozen=True)
class CallerWord:
    """A word as the caller wrote it.

    Attributes:
        text: without the marks around it, and without its pronunciation.
        start, end: its characters in the caller's text.
        is_replaced: whether a lexicon has a saying for it, or for a part of it, or whether it has
            its pronunciation beside it.
        written: the characters of the caller's text, where they differ from ``text``.
    """

    text: str
    start: int
    end: int
    is_replaced: bool = False
    written: str | None = None


def caller_words(text: str, replaced: Iterable[tuple[int, int]] = ()) -> tuple[CallerWord, ...]:
    """Return the words of a text, in order, without control tags and words of marks alone.

    Args:
        text: as the caller wrote it.
        replaced: the characters that a lexicon replaced, as start and end. Each such place is one
            word, with the words that it is a part of; and so is each mark of a pronunciation.
    """
    parts = [(start, end, True) for start, end in replaced]
    parts += [(*mark.span(), True) for mark in MARK.finditer(text)]
    for match in _WRITTEN.finditer(blank_tags(text)):
        own = match[0].strip(_MARKS)
        if own:
            start = match.start() + match[0].index(own)
            parts.append((start, start + len(own), False))
    words: list[CallerWord] = []
    for start, end, is_replaced in sorted(parts):
        if words and start < words[-1].end:
            last = words.pop()
            start, end = last.start, max(end, last.end)
            is_replaced |= last.is_replaced
        written = text[start:end]
        said = without_symbols(written)
        words.append(
            CallerWord(said, start, end, is_replaced, None if said == written else written)
        )
    return tuple(words)


def spoken_spans(text: str) -> list[tuple[int, int]]:
    """Return the characters of each spoken word of an utterance, as start and end."""
    return [match.span() for match in _SPOKEN.finditer(blank_tags(text))]


def assign_words(
    words: Sequence[CallerWord], utterances: Sequence[str], read: Reader
) -> list[tuple[CallerWord, ...]]:
    """Return the words that each utterance of a text speaks.

    Args:
        words: of the caller's text.
        utterances: of that text, in order.
        read: returns the spoken form of a written word.
    """
    spoken = [_keys(utterance) for utterance in utterances]
    owners = match_words(words, [key for own in spoken for key in own], read)
    assigned, place, first = [], 0, 0
    for own in spoken:
        last = max((owner + 1 for owner in owners[place : place + len(own)]), default=first)
        last = max(first, last)
        assigned.append(tuple(words[first:last]))
        place, first = place + len(own), last
    return assigned


def match_words(words: Sequence[CallerWord], spoken: Sequence[str], read: Reader) -> list[int]:
    """Return for each spoken word the index of the caller's word that it belongs to, or -1.

    The indices never decrease, apart from -1.

    Args:
        spoken: in lower case.
        read: returns the spoken form of a written word.
    """
    written = [_key(word.text) for word in words]

    @cache
    def reading(index: int) -> list[str]:
        word = words[index]
        return _keys(read(word.text if word.written is None else word.written))

    owners = [-1] * len(spoken)
    i = j = 0
    while i < len(words) and j < len(spoken):
        if written[i] == spoken[j] and not words[i].is_replaced:
            said = 1
        else:
            said = len(reading(i))
            if not said or list(spoken[j : j + said]) != reading(i):
                past_i, past_j = _next_equal(written, spoken, i, j)
                sizes = [len(reading(index)) for index in range(i, past_i)]
                owners[j:past_j] = _divided(i, sizes, past_j - j)
                i, j = past_i, past_j
                continue
        owners[j : j + said] = [i] * said
        i, j = i + 1, j + said
    return owners


def _next_equal(written: Sequence[str], spoken: Sequence[str], i: int, j: int) -> tuple[int, int]:
    """Return the nearest places behind ``i`` and ``j`` where both go on alike, or both ends."""
    left, said = len(written) - i, len(spoken) - j
    for distance in range(1, 2 * _AHEAD):
        for ahead in range(max(0, distance - _AHEAD), min(distance, _AHEAD) + 1):
            a, b = i + ahead, j + distance - ahead
            if a >= len(written) or b >= len(spoken):
                continue
            # Two words, since one such as "the" may be equal by chance.
            if list(written[a : a + 2]) == list(spoken[b : b + 2]):
                return a, b
    if max(left, said) <= _AHEAD:
        return len(written), len(spoken)
    return i + 1, j + 1


def _divided(first: int, sizes: Sequence[int], count: int) -> list[int]:
    """Divide ``count`` spoken words among words from ``first`` on, by the sizes of readings."""
    if not sum(sizes):
        return [-1] * count
    ends = np.round(np.cumsum(sizes) * (count / sum(sizes))).astype(int)
    owners: list[int] = (first + np.searchsorted(ends, np.arange(count), side="right")).tolist()
    return owners


def _keys(text: str) -> list[str]:
    return [_key(text[start:end]) for start, end in spoken_spans(text)]


def _key(word: str) -> str:
    return "".join(_LETTER.findall(word)).casefold()
