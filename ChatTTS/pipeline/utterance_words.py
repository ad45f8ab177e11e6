"""The words of an utterance with their times, while its frames come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..audio.samples import SAMPLE_RATE
from ..model.generation import Delta
from ..model.tokenizer import Tokenizer, spoken_part
from ..text.alignment import TextColumns, text_columns
from ..text.spoken_words import Reader
from ..text.tags import without_border_breaks
from .frame_generation import Utterance
from .results import Word
from .word_alignment import WordAligner, WordFrames

# A frame's samples; the last frame of an utterance has half of them.
FRAME_SAMPLES = 512


class UtteranceWords:
    """Turns the attention of an utterance's frames into its words.

    Args:
        text: the text positions of the utterance.
        silence: samples before its first frame.
    """

    def __init__(self, text: TextColumns, silence: int) -> None:
        self._words = text.words
        self._aligner = WordAligner(text)
        self._silence = silence
        self._frames = 0

    def push(self, delta: Delta) -> list[Word]:
        """Return the words that are final with the next frames, in order.

        Their times count from the beginning of the utterance. The delta that ends the utterance
        makes all words final.
        """
        found: list[WordFrames] = []
        if delta.attention is not None:
            found += self._aligner.push(delta.attention.numpy())
            self._frames += len(delta.attention)
        if delta.finish is not None:
            found += self._aligner.flush()
        return list(map(self._word, found))

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
        """Return where a frame begins. So many frames give half a frame less of samples."""
        last = max(0, 2 * self._frames - 1) * (FRAME_SAMPLES // 2)
        return self._silence + min(frame * FRAME_SAMPLES, last)


# Makes the words of an utterance, once its text is known.
MakeWords = Callable[[Utterance], UtteranceWords]


def word_maker(tokenizer: Tokenizer, read: Reader) -> MakeWords:
    """Return the function that makes the words of an utterance.

    Args:
        read: returns the spoken form of a written word.
    """
    return partial(_utterance_words, tokenizer, read)


def _utterance_words(tokenizer: Tokenizer, read: Reader, utterance: Utterance) -> UtteranceWords:
    spoken = spoken_part(utterance.spoken)
    columns = text_columns(spoken, tokenizer.offsets(spoken), utterance.words, read)
    silence = without_border_breaks(utterance.text).before
    return UtteranceWords(columns, round(silence * SAMPLE_RATE))
