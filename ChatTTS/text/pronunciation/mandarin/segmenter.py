"""Cut a run of Chinese characters into its likeliest words."""

from __future__ import annotations

from .lexicon import UNKNOWN_COST, Lexicon


def segmented(text: str, lexicon: Lexicon) -> list[str]:
    """Return the words of ``text``, which together are the text.

    They are the ones whose frequencies multiply to the most; the time grows with the length of the
    text. A character that is in no word is a word.

    Args:
        text: simplified Chinese characters alone.
    """
    costs = lexicon.costs
    best = [0] * (len(text) + 1)
    sizes = [1] * (len(text) + 1)
    for end in range(1, len(text) + 1):
        best[end] = best[end - 1] + costs.get(text[end - 1], UNKNOWN_COST)
        for size in range(2, min(lexicon.longest, end) + 1):
            cost = costs.get(text[end - size : end])
            if cost is not None and best[end - size] + cost < best[end]:
                best[end] = best[end - size] + cost
                sizes[end] = size
    words: list[str] = []
    end = len(text)
    while end:
        words.append(text[end - sizes[end] : end])
        end -= sizes[end]
    return words[::-1]
