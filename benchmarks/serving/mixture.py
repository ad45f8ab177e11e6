"""Texts as an application has them: from two words to sixty, drawn with a seed."""

from __future__ import annotations

import random
from itertools import chain

from recipes.voice.evaluation import heldout

# Texts of a few words, which are most of what a dialogue has.
_SHORT = (
    "Thank you.",
    "Good morning.",
    "I see.",
    "Just a moment, please.",
    "That is right.",
    "What happened then?",
    "Let me look that up for you.",
)
_LEAST, _LONGEST = 2, 60


def mixture(count: int, seed: int = 1, longest: int = _LONGEST) -> list[str]:
    """Return ``count`` texts of 2 to ``longest`` words.

    Lengths are spread evenly over their logarithm: as many texts have 2 to 5 words as 25 to 60.
    """
    rng = random.Random(seed)
    lines = list(heldout.everyday())
    return [_text(rng, lines, (count - n) / count, longest) for n in range(count)]


def _text(rng: random.Random, lines: list[str], place: float, longest: int) -> str:
    wanted = round(_LEAST * (longest / _LEAST) ** place)
    found: list[str] = []
    for line in chain(
        [rng.choice(_SHORT)] if wanted < 8 else [], iter(lambda: rng.choice(lines), "")
    ):
        if found and _words(found) + len(line.split()) > wanted:
            return " ".join(found)
        found.append(line)
        if _words(found) >= wanted:
            return " ".join(found)
    raise AssertionError("there is always another line")


def _words(lines: list[str]) -> int:
    return sum(len(line.split()) for line in lines)
