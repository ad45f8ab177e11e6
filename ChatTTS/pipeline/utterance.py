"""An utterance of a call, and the news of its frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ..audio.samples import SAMPLE_RATE, Samples
from ..model.generation import Delta
from ..text.emphasis import Emphasis
from ..text.pronunciation.placeholders import words_shown
from ..text.spoken_words import CallerWord
from ..text.tags import without_border_breaks
from .alignment.utterance_alignment import UtteranceAlignment
from .results import Fault, Fit, Word


@dataclass(frozen=True)
class Utterance:
    """A part of a text that is spoken in one go.

    Attributes:
        text_index: number of the text in the call.
        index: number of the utterance in that text.
        text: its words and tags, with placeholders for pronunciations that the caller gives.
        first: number of that text's first utterance in a longer text that is spoken in parts.
        words: the caller's words that it speaks, where their times are wanted.
        before, after: samples of silence that pauses in the text put around it.
        cuts_start, cuts_end: whether that silence is all that is silent at this end.
        emphases: of the caller's text, where the times of words are known.
        speaker: name of the checkpoint's speaker that the language of its text chooses; ``None``
            where the caller names a voice.
    """

    text_index: int
    index: int
    text: str
    first: int = 0
    words: tuple[CallerWord, ...] = field(default=(), compare=False)
    before: int = 0
    after: int = 0
    cuts_start: bool = False
    cuts_end: bool = False
    emphases: tuple[Emphasis, ...] = field(default=(), compare=False)
    speaker: str | None = None

    @property
    def is_shaped(self) -> bool:
        """Return whether its sound is changed after the decoder."""
        return self.cuts_start or self.cuts_end or bool(self.emphases)

    @property
    def number(self) -> int:
        """Number in the longer text, by which random numbers are drawn."""
        return self.first + self.index

    @property
    def spoken(self) -> str:
        """The text that the model is given: breaks at its borders become silence instead."""
        return without_border_breaks(self.text).spoken

    def silence_around(self, text: str | None = None) -> tuple[int, int]:
        """Return the samples of silence that pauses and breaks put before and after it.

        Args:
            text: with the breaks; the utterance's own by default.
        """
        before, _, after = without_border_breaks(self.text if text is None else text)
        return (
            round(before * SAMPLE_RATE) + self.before,
            round(after * SAMPLE_RATE) + self.after,
        )

    @cached_property
    def shown(self) -> str:
        """The text for people to read."""
        return words_shown(self.text)


@dataclass(frozen=True)
class Sound:
    """The whole sound of an utterance that was made from its frames already.

    Attributes:
        samples: float32 (n,) at 24 kHz, with the silence around it.
        words: with their places in these samples.
        fit: of its text, if that has a time.
    """

    samples: Samples
    words: tuple[Word, ...]
    fit: Fit | None


@dataclass(frozen=True)
class UtteranceUpdate:
    """New frames of an utterance.

    Attributes:
        delta: the frames; ``delta.index`` is a number in the batch, not in the call.
        is_restart: whether the utterance begins again here, and its earlier frames are void.
        faults: those that the guard found in the attempt since the update before.
        attempts: how many times the utterance was generated until now.
        alignment: of all frames of the attempt, if the times of words or faults are wanted.
        sound: of all its frames, where it is not to be decoded from them.
    """

    utterance: Utterance
    delta: Delta
    is_restart: bool = False
    faults: tuple[Fault, ...] = ()
    attempts: int = 1
    alignment: UtteranceAlignment | None = None
    sound: Sound | None = None
