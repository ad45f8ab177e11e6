"""The refine pass of checkpoints that only add to a text: what to ask for, and what to believe.

Such a pass puts breaks, laughs and fillers between the words of a text, and copies these. Now and
then a small model loses or repeats some; then the text is better spoken as it was.
"""

from __future__ import annotations

import re
from collections import Counter

from ..config import VoiceDefaults

_DEGREES = re.compile(r"\[(oral|laugh|break)_(\d+)\]")
_TAG = re.compile(r"\[[a-z_0-9]*\]")
# Scripts without blanks: a break may stand behind each character.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
# With [oral_n], about one filler comes for so many words over n; the longest have two words.
_WORDS_OF_A_FILLER, _SPARE = 27, 2


def asks_for_nothing(prompt: str) -> bool:
    """Return whether a refine prompt gives degrees, and all of them are 0."""
    degrees = _DEGREES.findall(prompt)
    is_whole = not _DEGREES.sub("", prompt).strip()
    return is_whole and bool(degrees) and not any(int(degree) for _, degree in degrees)


def may_refine(defaults: VoiceDefaults, prompt: str) -> bool:
    """Return whether a checkpoint can refine, and is asked for something by a refine prompt."""
    is_idle = defaults.refine_keeps_words and asks_for_nothing(prompt)
    return defaults.refine_trained and not is_idle


def keeps_words(text: str, refined: str, prompt: str) -> bool:
    """Return whether a refined text has the words of ``text``, and only fillers between them.

    Args:
        text: what was refined.
        refined: the answer, with control tags.
        prompt: the refine prompt; the degree of ``[oral_n]`` says how many fillers there may be.
    """
    words, found = _words(text), _words(refined)
    oral = max((int(n) for kind, n in _DEGREES.findall(prompt) if kind == "oral"), default=0)
    if not oral:
        return words == found
    rest = iter(found)
    if not all(word in rest for word in words):  # in this order
        return False
    added = Counter(found) - Counter(words)
    most = _SPARE + 2 * oral * len(words) // _WORDS_OF_A_FILLER
    # A filler may be a word of the text; a repeated phrase has several.
    repeated = sum(count for word, count in added.items() if word in words)
    return added.total() <= most and repeated <= 1


def _words(text: str) -> list[str]:
    return _WORD.findall(_TAG.sub(" ", text).lower())
