"""The guard: finds the faults of each attempt at an utterance, and says when to try again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..audio.samples import SAMPLE_RATE
from ..errors import ConfigError, shown
from ..model.generation import Delta, FinishReason
from ..model.tokenizer import Tokenizer
from ..text.alignment import TextColumns
from ..text.spoken_words import Reader
from .faults import FaultFinder, FrameFault, Limits
from .results import Fault
from .utterance import Utterance
from .utterance_words import sample_at, spoken_columns
from .word_alignment import WordAligner

RETRY, REPORT = "retry", "report"


class UtteranceGuard:
    """Finds the faults of one attempt while its frames come.

    Args:
        text: the text positions of the utterance.
        silence: samples before its first frame.
        samples_per_frame: of the synthesizer.
    """

    def __init__(self, text: TextColumns, silence: int, samples_per_frame: int) -> None:
        self._words = text.words
        self._finder = FaultFinder(text)
        self._aligner = WordAligner(text, self._finder)
        self._silence, self._samples_per_frame = silence, samples_per_frame
        self._frames = 0
        self._leaps: list[FrameFault] = []

    def push(self, delta: Delta) -> tuple[Fault, ...]:
        """Take the next frames; return the faults that are known since.

        Words that the path leaves out are known as soon as it is decided, the other faults with
        the delta that ends the attempt. An attempt that the caller ended has none of the others.
        Times count from the beginning of the utterance.
        """
        if delta.attention is not None:
            self._aligner.push(delta.attention.numpy())
            self._frames += len(delta.attention)
        is_over = delta.finish not in (None, FinishReason.ABORT)
        if is_over:
            self._aligner.flush()
        found = self._finder.new_leaps(Limits())
        self._leaps += found
        if is_over:
            found += [f for f in self._finder.faults(Limits()) if f not in self._leaps]
        return tuple(map(self._fault, found))

    def _fault(self, fault: FrameFault) -> Fault:
        start, end = (
            sample_at(frame, self._frames, self._silence, self._samples_per_frame)
            for frame in (fault.start, fault.end)
        )
        words = self._words[fault.first : fault.past]
        border = (self._words[fault.first - 1].end if fault.first else 0,) * 2
        first, last = (words[0].start, words[-1].end) if words else border
        return Fault(
            text=" ".join(word.text for word in words),
            start=start / SAMPLE_RATE,
            end=end / SAMPLE_RATE,
            start_sample=start,
            end_sample=end,
            start_character=first,
            end_character=last,
            kind=fault.kind.value,
            words=len(words),
        )


@dataclass(frozen=True)
class Guard:
    """The check of a call's utterances.

    Attributes:
        make: makes the guard of an attempt at an utterance.
        retries: whether a faulty utterance is generated again.
    """

    make: Callable[[Utterance], UtteranceGuard]
    retries: bool


def make_guard(mode: str, tokenizer: Tokenizer, read: Reader, samples_per_frame: int) -> Guard:
    """Return the guard of a call.

    Args:
        mode: ``retry`` or ``report``.
        read: returns the spoken form of a written word.
        samples_per_frame: of the synthesizer.
    """
    make = partial(_utterance_guard, tokenizer, read, samples_per_frame)
    return Guard(make, retries=mode == RETRY)


def _utterance_guard(
    tokenizer: Tokenizer, read: Reader, samples_per_frame: int, utterance: Utterance
) -> UtteranceGuard:
    columns, silence = spoken_columns(tokenizer, read, utterance)
    return UtteranceGuard(columns, silence, samples_per_frame)


def checked_guard(guard: Any) -> str | None:
    """Return the caller's choice.

    Raises:
        ConfigError: it is unknown.
    """
    if guard is None:
        return None
    if guard not in (RETRY, REPORT):
        raise ConfigError(f'guard must be "retry", "report" or None, not {shown(guard)}')
    return str(guard)
