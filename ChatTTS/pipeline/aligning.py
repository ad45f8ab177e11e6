"""Make the alignments of attempts at utterances."""

from __future__ import annotations

from functools import partial

from ..audio.samples import SAMPLE_RATE
from ..model.tokenizer import Tokenizer, spoken_part
from ..text.alignment import text_columns
from ..text.spoken_words import Reader
from ..text.tags import without_border_breaks
from .alignment.utterance_alignment import UtteranceAlignment
from .attempts import MakeAlignment
from .model import Model
from .utterance import Utterance


def aligner(
    model: Model, read: Reader, samples_per_frame: int, *, finds_faults: bool
) -> MakeAlignment:
    """Return what makes the alignments of a call.

    Args:
        read: returns the spoken form of a written word.
        samples_per_frame: of the synthesizer.
    """
    delay = round(model.config.defaults.alignment_delay * SAMPLE_RATE)
    return partial(_align, model.tokenizer, read, samples_per_frame, delay, finds_faults)


def _align(
    tokenizer: Tokenizer,
    read: Reader,
    samples_per_frame: int,
    delay: int,
    finds_faults: bool,
    utterance: Utterance,
) -> UtteranceAlignment:
    """Return the alignment of an attempt at an utterance, without frames.

    Args:
        delay: samples by which the attention moves on behind the sound.
    """
    spoken = spoken_part(utterance.spoken)
    columns = text_columns(spoken, tokenizer.offsets(spoken), utterance.words, read)
    silence = round(without_border_breaks(utterance.text).before * SAMPLE_RATE) + utterance.before
    return UtteranceAlignment(columns, silence, samples_per_frame, delay, finds_faults=finds_faults)
