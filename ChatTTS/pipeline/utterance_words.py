"""The words of an utterance with their times, while its frames come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..audio.samples import SAMPLE_RATE
from ..model.generation import Delta
from ..model.tokenizer import Tokenizer, spoken_part
from ..text.alignment import TextColumns, text_columns
from ..text.spoken_words import Reader
from ..text.tags import without_border_breaks
from .results import Word
from .utterance import Utterance
from .word_alignment import WordAligner, WordFrames

# Frames that may wait to be aligned. More at once cost less each, but wait in memory.
_MOST_WAITING = 64


class UtteranceWords:
    """Turns the attention of an utterance's frames into its words.

    Frames wait until the words are asked for: many together are aligned far faster than each alone,
    and give equal words.

    Args:
        text: the text positions of the utterance.
        silence: samples before its first frame.
        samples_per_frame: of the synthesizer; the last frame of an utterance gives half of them.
        delay: samples by which the attention moves on behind the sound.
    """

    def __init__(
        self, text: TextColumns, silence: int, samples_per_frame: int, delay: int = 0
    ) -> None:
        self._words = text.words
        self._aligner = WordAligner(text)
        self._silence, self._samples_per_frame = silence, samples_per_frame
        self._delay = delay
        self._frames = 0
        self._waiting: list[NDArray[np.float32]] = []  # attention that is not aligned yet
        self._waiting_frames = 0
        self._final: list[WordFrames] = []

    def push(self, delta: Delta) -> None:
        """Take the next frames; those that end the utterance make all words final."""
        if delta.attention is not None:
            self._waiting.append(delta.attention.numpy())
            self._waiting_frames += len(delta.attention)
            self._frames += len(delta.attention)
        if self._waiting_frames >= _MOST_WAITING:
            self._align()
        if delta.finish is not None:
            self._align()
            self._final += self._aligner.flush()

    def take(self) -> list[Word]:
        """Return the words that became final since the last call, in order.

        Their times count from the beginning of the utterance.
        """
        self._align()
        final, self._final = self._final, []
        return list(map(self._word, final))

    def _align(self) -> None:
        if self._waiting:
            self._final += self._aligner.push(np.concatenate(self._waiting))
            self._waiting, self._waiting_frames = [], 0

    def _word(self, frames: WordFrames) -> Word:
        word = self._words[frames.word]
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

    def _sample(self, frame: int) -> int:
        """Return where the sound of a frame begins, or the end of the samples."""
        at = sample_at(frame, self._frames, self._silence, self._samples_per_frame)
        return max(self._silence, at - self._delay)


def sample_at(frame: int, frames: int, silence: int, samples_per_frame: int) -> int:
    """Return the sample at which a frame of an utterance begins, or the end of its samples.

    Args:
        frames: of the utterance so far; the last one gives half of the samples.
        silence: samples before the first frame.
    """
    last = max(0, 2 * frames - 1) * (samples_per_frame // 2)
    return silence + min(frame * samples_per_frame, last)


# Makes the words of an utterance, once its text is known.
MakeWords = Callable[[Utterance], UtteranceWords]


def word_maker(
    tokenizer: Tokenizer, read: Reader, samples_per_frame: int, delay: float
) -> MakeWords:
    """Return the function that makes the words of an utterance.

    Args:
        read: returns the spoken form of a written word.
        samples_per_frame: of the synthesizer.
        delay: seconds by which the attention moves on behind the sound.
    """
    return partial(_utterance_words, tokenizer, read, samples_per_frame, round(delay * SAMPLE_RATE))


def _utterance_words(
    tokenizer: Tokenizer, read: Reader, samples_per_frame: int, delay: int, utterance: Utterance
) -> UtteranceWords:
    columns, silence = spoken_columns(tokenizer, read, utterance)
    return UtteranceWords(columns, silence, samples_per_frame, delay)


def spoken_columns(
    tokenizer: Tokenizer, read: Reader, utterance: Utterance
) -> tuple[TextColumns, int]:
    """Return the text positions of an utterance, and the samples of silence before it.

    Args:
        read: returns the spoken form of a written word.
    """
    spoken = spoken_part(utterance.spoken)
    columns = text_columns(spoken, tokenizer.offsets(spoken), utterance.words, read)
    silence = round(without_border_breaks(utterance.text).before * SAMPLE_RATE)
    return columns, utterance.before + silence
