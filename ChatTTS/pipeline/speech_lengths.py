"""Lengths of a checkpoint's speech: seconds of a text, and how its speed tags change them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from ..model.tokenizer import Tokenizer

_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
SPEED_TAG = re.compile(r"\[speed_\d\]")


@dataclass(frozen=True)
class Units:
    """The parts of an utterance that take time.

    Attributes:
        han: text positions that speak a Chinese character.
        letters: those that speak other letters and digits.
        marks: those of marks and tags inside of it, at which a speaker may pause.
    """

    han: int
    letters: int
    marks: int


def units_of(tokenizer: Tokenizer, spoken: str) -> Units:
    """Return the units of an utterance.

    Args:
        spoken: as ``spoken_part`` returns it.

    Raises:
        TextError: the tokenizer cannot read it.
    """
    han = letters = marks = waiting = 0
    for start, end in tokenizer.offsets(spoken):
        if start >= end:
            continue
        first = spoken[start]
        if first.isalnum() or unicodedata.category(first) == "Co":  # placeholders of pronunciations
            is_han = _HAN.match(first) is not None
            han, letters = han + is_han, letters + (not is_han)
            marks, waiting = marks + waiting, 0
        elif not first.isspace():
            waiting = 1  # what follows the last word does not count
    return Units(han, letters, marks)


@dataclass(frozen=True)
class Pace:
    """A manner of the model's own tempo.

    Attributes:
        tags: the control tags that ask for it, such as ``[speed_3]``; two of them give a tempo
            between theirs. Empty for a checkpoint without such tags.
        factor: the seconds of a text at this pace, divided by those at the usual one.
    """

    tags: str
    factor: float


@dataclass(frozen=True)
class SpeechLengths:
    """The seconds of speech of a text, from its first sound to its last, in a mean voice.

    Attributes:
        per_han, per_letter, per_mark: seconds of each unit at the usual pace.
        per_utterance: seconds that each utterance has beside them.
        paces: from the fastest to the slowest.
    """

    per_han: float
    per_letter: float
    per_mark: float
    per_utterance: float
    paces: tuple[Pace, ...]

    def seconds(self, units: Units) -> float:
        """Return the seconds of an utterance at the usual pace."""
        return (
            self.per_utterance
            + self.per_han * units.han
            + self.per_letter * units.letters
            + self.per_mark * units.marks
        )
