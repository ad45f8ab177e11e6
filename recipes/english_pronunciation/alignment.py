"""An alignment of letters with phonemes, found by expectation maximisation.

Each letter says none to three phonemes. What a letter says is drawn from a distribution of its own
(a joint-sequence model of order one, as in Bisani and Ney, "Joint-sequence models for
grapheme-to-phoneme conversion", 2008).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

_PHONEME = re.compile(r"[ˈˌ]*.")
_LONGEST = 3  # phonemes of one letter
_ROUNDS = 6
_FLOOR = 1e-9
# A letter usually says one phoneme; without this, silent letters pile up beside full ones.
_PRIOR = (0.3, 1.0, 0.1, 0.01)

Table = dict[tuple[str, str], float]  # probability of the phonemes, given the letter


def split_phonemes(text: str) -> list[str]:
    """Return the phonemes of ``text``, each with the stress before it."""
    return _PHONEME.findall(text)


class Aligner:
    """Aligns words with their phonemes."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Learn from ``pairs`` of words and phonemes; some thousands suffice."""
        self._table: Table = {}
        for _ in range(_ROUNDS):
            counts: Table = defaultdict(float)
            for word, text in pairs:
                self._count(word, _bare(text), counts)
            totals: dict[str, float] = defaultdict(float)
            for (letter, _), count in counts.items():
                totals[letter] += count
            self._table = {key: count / totals[key[0]] for key, count in counts.items()}

    def align(self, word: str, text: str) -> list[str] | None:
        """Return what each letter says, stress included; None if the letters are too few."""
        phonemes, bare = split_phonemes(text), _bare(text)
        count = len(bare)
        best = [1.0] + [0.0] * count  # the likelihood of the letters so far with so many phonemes
        steps: list[list[int]] = []
        for letter in word:
            row, taken_here = [0.0] * (count + 1), [0] * (count + 1)
            for j, before in enumerate(best):
                if before:
                    for k in range(j, min(j + _LONGEST, count) + 1):
                        score = before * self._share(letter, bare[j:k])
                        if score > row[k]:
                            row[k], taken_here[k] = score, k - j
            best = row
            steps.append(taken_here)
        if not best[count]:
            return None
        parts, j = [], count
        for taken_here in reversed(steps):
            parts.append("".join(phonemes[j - taken_here[j] : j]))
            j -= taken_here[j]
        return parts[::-1]

    def _share(self, letter: str, part: Sequence[str]) -> float:
        if not self._table:
            return _PRIOR[len(part)]
        return self._table.get((letter, "".join(part)), 0.0) * _PRIOR[len(part)] + _FLOOR

    def _count(self, word: str, bare: Sequence[str], counts: Table) -> None:
        """Add the expected uses of each pair in one word to ``counts``."""
        rows, columns = len(word) + 1, len(bare) + 1
        before = [[0.0] * columns for _ in range(rows)]
        after = [[0.0] * columns for _ in range(rows)]
        before[0][0] = after[-1][-1] = 1.0
        steps = [
            (
                i,
                j,
                j + taken,
                "".join(bare[j : j + taken]),
                self._share(word[i], bare[j : j + taken]),
            )
            for i, j, taken in _moves(len(word), len(bare))
        ]
        for i, j, k, _, share in steps:
            before[i + 1][k] += before[i][j] * share
        for i, j, k, _, share in reversed(steps):
            after[i][j] += after[i + 1][k] * share
        total = before[-1][-1]
        if total > 0:
            for i, j, k, part, share in steps:
                counts[word[i], part] += before[i][j] * share * after[i + 1][k] / total


def _bare(text: str) -> list[str]:
    return split_phonemes(text.replace("ˈ", "").replace("ˌ", ""))


def _moves(letters: int, phonemes: int) -> Iterable[tuple[int, int, int]]:
    for i in range(letters):
        for j in range(phonemes + 1):
            for taken in range(min(_LONGEST, phonemes - j) + 1):
                yield i, j, taken
