"""The sentences of the measurements, which training never contains."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..texts import HELD_OUT, held_out, normalizer
from .speech_metrics import words

LONGEST = 60  # words of a sentence that is strung together


@lru_cache(maxsize=1)
def everyday() -> tuple[str, ...]:
    """Return 200 everyday sentences, normalised."""
    return _normalised("english_everyday")


@lru_cache(maxsize=1)
def rare() -> tuple[str, ...]:
    """Return 100 sentences with rare words, normalised."""
    return _normalised("english_rare")


@lru_cache(maxsize=1)
def mandarin() -> tuple[str, ...]:
    """Return 200 Mandarin sentences, normalised."""
    return _normalised("mandarin")


def long() -> tuple[str, ...]:
    """Return everyday sentences strung together to 60 words each."""
    return tuple(strings(everyday()))


def strings(lines: Sequence[str], most: int = LONGEST) -> list[str]:
    """Join sentences in order, with commas, into sentences of at most ``most`` words.

    A last one that is shorter than half of that is left out.
    """
    strung: list[list[str]] = [[]]
    for line in lines:
        if len(words(" ".join([*strung[-1], line]))) > most:
            strung.append([])
        strung[-1].append(line.rstrip(".?!"))
    whole = [f"{', '.join(parts)}." for parts in strung]
    return [line for line in whole if len(words(line)) >= most / 2]


def _normalised(name: str) -> tuple[str, ...]:
    language = HELD_OUT[name]
    return tuple(normalizer()(line, lang=language).strip() for line in held_out(name))
