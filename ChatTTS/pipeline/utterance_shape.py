"""Change the sound of an utterance as its text asks: emphasis, and exact silence at its ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from ..audio.samples import SAMPLE_RATE, Samples
from .alignment.utterance_alignment import UtteranceAlignment
from .edges import Edges
from .emphasiser import Emphasiser
from .results import Fault, Word
from .utterance import Utterance

T = TypeVar("T", Word, Fault)


class UtteranceShape:
    """Takes the samples of an utterance from its decoder, and gives those that are heard.

    Args:
        utterance: as the speech pass has it.
    """

    def __init__(self, utterance: Utterance) -> None:
        self._origin, last = utterance.silence_around()
        self._edges = Edges(
            self._origin if utterance.cuts_start else None, last if utterance.cuts_end else None
        )
        self._emphasiser = Emphasiser(utterance.emphases)
        self._has_sound = False
        self._heard = 0  # words of the alignment
        # Those whose place is not known yet.
        self._words: deque[Word] = deque()
        self._faults: list[Fault] = []

    def push(
        self,
        samples: Samples,
        alignment: UtteranceAlignment | None,
        *,
        is_last: bool,
        is_whole: bool,
    ) -> Samples:
        """Return the samples that are ready, float32 (n,); after the last call, all are.

        Args:
            samples: the next ones of the decoder.
            alignment: of the attempt, where the utterance has emphasis.
            is_last: whether no more samples come.
            is_whole: whether the utterance then ends by itself.
        """
        self._has_sound |= len(samples) > 0
        if not self._has_sound:
            return samples
        words = [] if alignment is None else alignment.words_from(self._heard)
        self._heard += len(words)
        self._words += words
        own = [word.shifted(-self._origin) for word in words]
        changed = self._emphasiser.push(samples, own, is_last=is_last)
        return self._edges.push(changed, is_last=is_last, is_whole=is_whole)

    def take_words(self) -> list[Word]:
        """Return the words that are final and whose place in the sound is known, each once."""
        taken = []
        while self._words and (placed := self.placed(self._words[0])) is not None:
            self._words.popleft()
            taken.append(placed)
        return taken

    def add_faults(self, faults: Iterable[Fault]) -> None:
        """Take faults by their places in the samples of the decoder."""
        self._faults += faults

    def take_faults(self) -> list[Fault]:
        """Return the faults whose place in the sound is known, each once."""
        pairs = [(fault, self.placed(fault)) for fault in self._faults]
        self._faults = [fault for fault, place in pairs if place is None]
        return [place for _, place in pairs if place is not None]

    def placed(self, part: T) -> T | None:
        """Return a word or fault where it is heard; ``None`` while that is not known."""
        first, last = (
            self._output_position(sample) for sample in (part.start_sample, part.end_sample)
        )
        if first is None or last is None:
            return None
        return replace(
            part,
            start=first / SAMPLE_RATE,
            end=last / SAMPLE_RATE,
            start_sample=first,
            end_sample=last,
        )

    def _output_position(self, sample: int) -> int | None:
        position, cut = self._emphasiser.output_position(sample - self._origin), self._edges.cut
        if position is None or cut is None:
            return None
        return self._origin + max(0, position - cut)
