"""Examples for the refine pass: English texts, and the same with fillers, laughs and breaks.

Both sides are letters. Mandarin has no refine pass: its characters are no tokens of the voice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .arrangement import LAUGH, UV_BREAK
from .counter_rng import CounterRng

FILLERS = ("um", "uh", "well", "you know", "like", "i mean", "so", "right")
MOST_ORAL, MOST_LAUGH, MOST_PAUSE = 9, 2, 7  # of [oral_n], [laugh_n], [break_n]

_UNKNOWN = re.compile(r"[^A-Za-z' ,.?!]")
_COUNT = 100_000
_LONGEST = 40  # words


@dataclass(frozen=True)
class RefinePair:
    """An example for the refine pass.

    Attributes:
        text: a plain sentence, without control tags.
        oral: n of ``[oral_n]``, 0 to 9: how many fillers.
        laugh: n of ``[laugh_n]``, 0 to 2: how much laughter.
        pause: n of ``[break_n]``, 0 to 7: how many ``[uv_break]``.
        refined: the text that the refine pass has to write.
    """

    text: str
    oral: int
    laugh: int
    pause: int
    refined: str

    @property
    def prompt(self) -> str:
        """The refine prompt for ``refined``."""
        return f"[oral_{self.oral}][laugh_{self.laugh}][break_{self.pause}]"


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
