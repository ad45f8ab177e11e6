"""From the arguments of ``infer`` or ``stream`` to a call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..errors import ConfigError, TextError, shown
from ..model.generation import Cancellation
from ..params import InferCodeParams
from ..text.emphasis import has_emphasis
from .call import InferCall
from .call_arguments import (
    checked_batch,
    checked_durations,
    checked_first,
    checked_guard,
    checked_texts,
)
from .fitting.learning import fitting_of
from .head_search import alignment_heads, can_emphasise
from .model import Model
from .utterances import Reading, Silences, utterances_of, word_reader
from .voice import text_speaker

logger = logging.getLogger(__name__)


def checked_single(text: Any) -> list[str]:
    """Return the one text of a stream in a list.

    Raises:
        TextError: it is no string.
    """
    if not isinstance(text, str):
        raise TextError("stream speaks one text, a string; infer(texts, stream=True) takes many")
    return [text]


def set_up_call(
    model: Model,
    text: str | Sequence[str],
    reading: Reading,
    params: InferCodeParams,
    cancelled: Cancellation,
    *,
    split_text: bool,
    max_split_batch: int,
    is_stream: bool,
    is_strict: bool,
    word_times: bool,
    guard: str | None,
    duration: Any,
    may_be_late: bool,
    silences: Silences,
    first: int = 0,
) -> InferCall:
    """Return a call with its utterances; see ``Chat.infer`` for the arguments.

    What a checkpoint needs for the times of words, and for texts that have a time, is found now.

    Args:
        is_stream: whether all texts are given out side by side.
        is_strict: raise where a text has nothing to speak.
        silences: that are exact.
        first: number of the text's first utterance in a longer text.

    Raises:
        TextError, ConfigError, EngineUnavailableError, AudioError: as ``Chat.infer``.
    """
    checked_guard(guard)
    first = checked_first(first)
    texts = checked_texts(text)
    durations = checked_durations(duration, text, texts)
    is_timed = any(seconds is not None for seconds in durations)
    # A stream gives all texts at once, so all of them are generated at once.
    together = len(texts) if is_stream or not split_text else 1
    if split_text:
        together = max(together, checked_batch(max_split_batch))
    if is_timed and silences.are_at_ends:
        raise ConfigError(
            "a duration is that of the speech alone: leave out silence_before and silence_after"
        )
    for one, seconds in zip(texts, durations, strict=True):
        if seconds is not None and has_emphasis(one):
            logger.warning("%s: emphasis has no effect where the speech has a time", shown(one))
    aligns = word_times or guard is not None or is_timed or can_emphasise(model, texts)
    read = word_reader(reading) if aligns else None
    found = utterances_of(
        model,
        texts,
        reading,
        read=read,
        split_text=split_text,
        first=first,
        is_strict=is_strict,
        silences=silences,
        speaker_of=lambda one: text_speaker(model, params, one, reading.lang),
    )
    if model.gpt.batches_itself and not is_stream:
        together = len(found.utterances)
    show = params.show_tqdm
    heads = () if read is None else alignment_heads(model, cancelled, show=show)
    fitting = None
    if is_timed:
        fitting = fitting_of(
            model, heads, texts, durations, cancelled, may_be_late=may_be_late, show=show
        )
    return InferCall(
        model,
        found,
        max(1, together),
        cancelled,
        read,
        heads,
        guard,
        fitting,
        calls_back=read is not None and bool(reading.normalizer.normalizers),
    )
