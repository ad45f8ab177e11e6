"""The alignment of an attempt at an utterance: its words with their times, and its faults."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...audio.samples import SAMPLE_RATE
from ...model.generation import Delta, FinishReason
from ...text.alignment import TextColumns
from ...utils.locks import new_lock
from ..results import Fault, Word
from .faults import FaultFinder, FrameFault, Limits
from .word_aligner import WordAligner, WordFrames

# Frames that may wait to be aligned. More at once cost less each, but wait in memory.
_MAX_WAITING = 64


class UtteranceAlignment:
    """Aligns the frames of one attempt with their text, once for its words and its faults.

    Where only words are wanted, frames wait until a reader asks for the words: many together are
    aligned far faster than each alone, and give equal words. One thread pushes frames while
    another one reads words.

    Args:
        text: the text positions of the utterance.
        silence: samples before its first frame.
        samples_per_frame: of the synthesizer; the last frame of an utterance gives half of them.
        delay: samples by which the attention moves on behind the sound; faults have it in them.
        finds_faults: whether :meth:`push` returns faults.
    """

    def __init__(
        self,
        text: TextColumns,
        silence: int,
        samples_per_frame: int,
        delay: int = 0,
        *,
        finds_faults: bool = False,
    ) -> None:
        self._text_words = text.words
        self._finder = FaultFinder(text) if finds_faults else None
        self._aligner = WordAligner(text, self._finder)
        self._silence, self._samples_per_frame = silence, samples_per_frame
        self._delay = delay
        self._frames = 0
        self._waiting: list[NDArray[np.float32]] = []  # attention that is not aligned yet
        self._waiting_frames = 0
        self._final: list[WordFrames] = []
        self._leaps: list[FrameFault] = []
        self._lock = new_lock()

    def push(self, delta: Delta) -> tuple[Fault, ...]:
        """Take the next frames; return the faults that are known since, where they are wanted.

        Frames that end the attempt make all words final. Words that the path leaves out are known
        as soon as it is decided, the other faults with the delta that ends the attempt. An attempt
        that the caller ended has none of the others. Times count from the beginning of the
        utterance.
        """
        with self._lock:
            if delta.attention is not None:
                self._waiting.append(delta.attention.numpy())
                self._waiting_frames += len(delta.attention)
                self._frames += len(delta.attention)
            is_over = delta.finish not in (None, FinishReason.ABORT)
            if self._finder is not None or is_over or self._waiting_frames >= _MAX_WAITING:
                self._align()
            if is_over:
                self._final += self._aligner.flush()
            faults = () if self._finder is None else self._new_faults(self._finder, is_over)
            if delta.finish is FinishReason.ABORT:
                self._align()
                self._final += self._aligner.flush()
            return faults

    def words_from(self, first: int) -> list[Word]:
        """Return the words that are final, in order, from the one with the index ``first`` on.

        Their times count from the beginning of the utterance.
        """
        with self._lock:
            self._align()
            return list(map(self._word, self._final[first:]))

    def _align(self) -> None:
        if self._waiting:
            self._final += self._aligner.push(np.concatenate(self._waiting))
            self._waiting, self._waiting_frames = [], 0

    def _new_faults(self, finder: FaultFinder, is_over: bool) -> tuple[Fault, ...]:
        found = finder.new_leaps(Limits())
        self._leaps += found
        if is_over:
            found += [fault for fault in finder.faults(Limits()) if fault not in self._leaps]
        return tuple(map(self._fault, found))

    def _word(self, frames: WordFrames) -> Word:
        word = self._text_words[frames.word]
        start, end = self._sample(frames.start), self._sample(frames.end)
        return Word(
            text=word.text,
            start=start / SAMPLE_RATE,
            end=end / SAMPLE_RATE,
            start_sample=start,
            end_sample=end,
            start_character=word.start,
            end_character=word.end,
            confidence=round(frames.confidence, 3),
        )

    def _fault(self, fault: FrameFault) -> Fault:
        start, end = self._sample_at(fault.start), self._sample_at(fault.end)
        words = self._text_words[fault.first : fault.past]
        border = (self._text_words[fault.first - 1].end if fault.first else 0,) * 2
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

    def _sample(self, frame: int) -> int:
        """Return where a word that begins or ends at a frame does so in the samples."""
        return max(self._silence, self._sample_at(frame) - self._delay)

    def _sample_at(self, frame: int) -> int:
        """Return the sample at which a frame begins, or the end of the samples so far."""
        last = max(0, 2 * self._frames - 1) * (self._samples_per_frame // 2)
        return self._silence + min(frame * self._samples_per_frame, last)
