"""Examples for the refine pass: English texts, and the same with fillers, laughs and breaks.

Both sides are letters. Mandarin has no refine pass: its characters are no tokens of the voice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from recipes.bundled_voice.counter_rng import CounterRng
from recipes.bundled_voice.texts import MOST_LAUGH, MOST_ORAL, MOST_PAUSE, refine
from recipes.bundled_voice.types import RefinePair

_UNKNOWN = re.compile(r"[^A-Za-z' ,.?!]")
_COUNT = 100_000
_LONGEST = 40  # words


def plain(text: str) -> str:
    """Return a normalised English text in the letters and marks that the refine pass knows."""
    read = re.sub(r"\s*[;:…—]\s*", ", ", text)
    read = _UNKNOWN.sub("", read)
    return re.sub(r"\s+", " ", re.sub(r"(?:, )+(?=[,.?!])|,(?=[.?!])", "", read)).strip()


class RefinePairs:
    """Examples for the refine pass, made on access; all degrees are equally frequent.

    Args:
        seed: seed of the examples.
        texts: normalised English texts.
    """

    def __init__(self, seed: int, texts: Iterable[str]) -> None:
        self._seed = seed
        known = map(plain, texts)
        self._texts = [text for text in known if 0 < len(text.split()) <= _LONGEST]

    def __len__(self) -> int:
        return _COUNT

    def __getitem__(self, index: int) -> RefinePair:
        rng = CounterRng(self._seed, index)
        text = " ".join(rng.pick(self._texts) for _ in range(rng.pick((1, 1, 2))))
        oral, laugh, pause = (rng.integer(0, most) for most in (MOST_ORAL, MOST_LAUGH, MOST_PAUSE))
        return RefinePair(text, oral, laugh, pause, refine(text, oral, laugh, pause, rng))
