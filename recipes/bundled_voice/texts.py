"""The texts of the training: endless sentences, their control tags, and refine pairs.

There are three kinds of sentences: everyday ones of the recipe's grammar; strings of random words
(a fifth of them from a dictionary of seventy thousand); and everyday patterns filled with random
words. Some random words are invented. So the voice learns both likely sentences and the sounds of
letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from ChatTTS.text.normalizer import Normalizer

from .counter_rng import CounterRng
from .grammar import PATTERNS, expand
from .speech import LAUGH, LBREAK, UV_BREAK
from .types import RefinePair
from .words import dictionary, everyday, invented, is_held_out
from .words_heldout import EVERYDAY, LONG, UNSEEN

T = TypeVar("T")

CHARACTERS = "'?"  # beyond the letters, comma and stop that every voice knows
LONGEST = 60  # words of a sentence
FILLERS = ("um", "uh", "well", "you know", "like", "i mean", "so", "right")
MOST_ORAL, MOST_LAUGH, MOST_PAUSE = 9, 2, 7  # of [oral_n], [laugh_n], [break_n]

_WORD = re.compile(r"[a-z']+")
# Pairs: probability, and the range of the number of words or clauses.
_LENGTHS = ((0.08, (1, 2)), (0.73, (3, 11)), (0.13, (12, 20)), (0.06, (21, 45)))  # of random words
_CLAUSES = ((0.66, 1), (0.26, 2), (0.05, 3), (0.03, 6))


@dataclass(frozen=True)
class Shares:
    """The share of each kind among all sentences, and among all random words."""

    everyday: float = 0.4
    random: float = 0.35  # the rest are everyday patterns with random words
    frequent: float = 0.4  # random words from the most frequent ones
    common: float = 0.35  # random words from all of the recipe's own
    invented: float = 0.06  # random words that do not exist


SHARES = Shares()


def everyday_heldout() -> tuple[str, ...]:
    """Return 200 everyday sentences, written by hand, that training never contains."""
    return _lines(EVERYDAY)


def long_heldout() -> tuple[str, ...]:
    """Return sentences of 60 words that training never contains."""
    return tuple(" ".join(lines.split()) for lines in LONG.split("\n\n"))


def unseen_words() -> tuple[str, ...]:
    """Return 50 sentences full of words that training never contains."""
    return _lines(UNSEEN)


def sentences(seed: int, shares: Shares = SHARES) -> Iterator[str]:
    """Yield endless plain sentences: lower case, ``,.?'`` alone, an end mark after each.

    Raises:
        AssetError: the dictionary is not installed.
    """
    place = 0
    while True:
        yield sentence(CounterRng(seed, place), shares)
        place += 1


def sentence(rng: CounterRng, shares: Shares = SHARES) -> str:
    """Return a plain sentence of 1 to ``LONGEST`` words; never one that is held out."""
    while True:
        kind = rng.fraction()
        if kind < shares.everyday:
            text = _everyday(rng, 0.0, shares)
        elif kind < shares.everyday + shares.random:
            text = _random(rng, shares)
        else:
            text = _everyday(rng, 0.5, shares)
        if _is_allowed(text):
            return text


def utterance(rng: CounterRng, shares: Shares = SHARES) -> str:
    """Return one to three sentences, some with control tags, for the corpus."""
    count = 1 if rng.bernoulli(0.8) else rng.integer(2, 3)
    plain = [sentence(rng, shares) for _ in range(count)]
    text = " ".join(_with_borders(line, rng) for line in plain)
    if rng.bernoulli(0.3):
        oral = rng.integer(1, 6) if rng.bernoulli(0.3) else 0
        laugh = rng.integer(1, MOST_LAUGH) if rng.bernoulli(0.3) else 0
        text = refine(" ".join(plain), oral, laugh, rng.integer(0, MOST_PAUSE), rng)
    return f"{text} {LBREAK}" if rng.bernoulli(0.15) else text


def _with_borders(text: str, rng: CounterRng) -> str:
    """Put a break or a laugh before some sentences, or a break after their full stop."""
    if rng.bernoulli(0.05):
        text = f"{rng.pick((UV_BREAK, LBREAK, LAUGH))} {text}"
    return f"{text} {UV_BREAK}" if rng.bernoulli(0.05) else text


class RefinePairs:
    """Examples for the refine pass, made on access; all degrees are equally frequent.

    Args:
        seed: seed of the examples.
        count: number of examples.
        shares: how often each kind of text comes.
    """

    def __init__(self, seed: int, count: int, shares: Shares = SHARES) -> None:
        self._seed, self._count, self._shares = seed, count, shares

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> RefinePair:
        if not 0 <= index < self._count:
            raise IndexError(f"pair {index} of {self._count}")
        rng = CounterRng(self._seed, index)
        text = " ".join(sentence(rng, self._shares) for _ in range(rng.pick((1, 1, 2))))
        oral, laugh, pause = (rng.integer(0, most) for most in (MOST_ORAL, MOST_LAUGH, MOST_PAUSE))
        return RefinePair(text, oral, laugh, pause, refine(text, oral, laugh, pause, rng))


def refine(text: str, oral: int, laugh: int, pause: int, rng: CounterRng) -> str:
    """Add as many fillers, laughs and breaks to ``text`` as the three degrees require.

    The numbers depend only on the degrees and the length, so that a model can learn them: ``laugh``
    laughs, one filler per ``27 / oral`` words and one break per ``21 / pause`` words, rounded.
    Laughs follow sentences, or commas if there are too few sentences. Breaks follow commas first.
    """
    words = text.split()
    ends = [i for i, word in enumerate(words) if word[-1] in ".?"]
    commas = [i for i, word in enumerate(words) if word[-1] == ","]
    inner = [i for i, word in enumerate(words[:-1]) if word[-1] not in ",.?"]
    laughs = set(rng.sample(ends, laugh))
    laughs |= set(rng.sample(commas or inner, laugh - len(laughs)))
    count = round(len(words) * pause / 21)
    breaks = set(rng.sample(commas, count))
    breaks |= set(rng.sample(inner, count - len(breaks)))
    fillers = set(rng.sample(range(len(words)), round(len(words) * oral / 27)))
    refined: list[str] = []
    for i, word in enumerate(words):
        if i in fillers:
            refined.append(f"{rng.pick(FILLERS)},")
        refined.append(word)
        refined += [UV_BREAK] * (i in breaks) + [LAUGH] * (i in laughs)
    return " ".join(refined)


def _everyday(rng: CounterRng, random_share: float, shares: Shares) -> str:
    """Return a sentence of the grammar with this share of random words."""
    slots = everyday().slots

    def word(slot: str) -> str:
        return _random_word(rng, shares) if rng.bernoulli(random_share) else rng.pick(slots[slot])

    kind = rng.fraction()
    if kind < 0.1:
        return _finished(expand(rng.pick(PATTERNS["short"]), rng, word), ".")
    if kind < 0.35:
        return _finished(expand("{question}", rng, word), "?")
    pattern = "{clause}"
    for _ in range(_weighted(rng, _CLAUSES) - 1):
        joint = rng.pick(PATTERNS["joint"])
        pattern += f"{joint if joint.startswith(',') else f' {joint}'} {{clause}}"
    if rng.bernoulli(0.12):
        pattern = "{opening}, " + pattern
    return _finished(expand(pattern, rng, word), ".")


def _random(rng: CounterRng, shares: Shares) -> str:
    """Return a string of random words."""
    low, high = _weighted(rng, _LENGTHS)
    words = [_random_word(rng, shares) for _ in range(rng.integer(low, high))]
    marked = [word + "," * rng.bernoulli(0.1) for word in words[:-1]] + words[-1:]
    return _finished(" ".join(marked), rng.pick("....?"))


def _random_word(rng: CounterRng, shares: Shares) -> str:
    known = everyday()
    groups: tuple[tuple[float, Callable[[], str]], ...] = (
        (shares.frequent, lambda: rng.pick(known.slots[rng.pick(("small", "frequent"))])),
        (shares.common, lambda: rng.pick(known.all)),
        (shares.invented, lambda: invented(rng)),
        (1.0, lambda: rng.pick(dictionary())),
    )
    return _weighted(rng, groups)()


def _weighted(rng: CounterRng, choices: Sequence[tuple[float, T]]) -> T:
    chosen = rng.fraction()
    for share, value in choices:
        chosen -= share
        if chosen < 0:
            return value
    return choices[-1][1]


def _finished(text: str, mark: str) -> str:
    """Return ``text`` as the package's normaliser passes it to the model, with an end mark."""
    if re.search(r"\d", text):
        text = _normalizer()(text, lang="en")
    return text.lower().rstrip(",. ") + mark


def _is_allowed(text: str) -> bool:
    words = _WORD.findall(text)
    spoken = {tuple(_WORD.findall(part)) for part in re.split(r"[.?]", text)}
    return (
        0 < len(words) <= LONGEST
        and spoken.isdisjoint(_held_out())
        and not any(map(_is_held_out, words))
    )


_is_held_out = lru_cache(maxsize=200_000)(is_held_out)


@lru_cache(maxsize=1)
def _held_out() -> frozenset[tuple[str, ...]]:
    lines = (*everyday_heldout(), *long_heldout(), *unseen_words())
    return frozenset(tuple(_WORD.findall(line)) for line in lines)


@lru_cache(maxsize=1)
def _normalizer() -> Normalizer:
    return Normalizer(characters=CHARACTERS, language="en")


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.strip().splitlines())
