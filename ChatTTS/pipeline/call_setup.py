"""From the arguments of ``infer`` or ``stream`` to a call."""

from __future__ import annotations

import logging

from ..errors import ConfigError, shown
from ..model.generation import Cancellation
from ..params import InferCodeParams, RefineTextParams, as_low_latency
from ..text import Lexicon, Normalizer
from ..text.emphasis import has_emphasis
from .call import InferCall
from .call_arguments import checked_batch, checked_durations, checked_first, checked_guard
from .call_options import CallOptions
from .fitting.learning import fitting_of
from .head_search import alignment_heads, can_emphasise
from .model import Model
from .utterances import Reading, Silences, utterances_of, word_reader
from .voice import text_speaker

logger = logging.getLogger(__name__)


def set_up_call(
    model: Model,
    asked: CallOptions,
    normalizer: Normalizer,
    refining: RefineTextParams,
    params: InferCodeParams,
    cancelled: Cancellation,
) -> InferCall:
    """Return a call with its utterances.

    What a checkpoint needs for the times of words, and for texts that have a time, is found now.

    Args:
        normalizer: reads the texts.
        refining: how to refine the texts, if that is asked for.
        params: of the speech.

    Raises:
        TextError, ConfigError, EngineUnavailableError, AudioError: as ``Chat.infer``.
    """
    low_latency = as_low_latency(asked.low_latency)
    if low_latency is not None and not asked.stream:
        raise ConfigError("low_latency needs stream=True")
    checked_guard(asked.guard)
    first = checked_first(asked.first_utterance)
    reading = Reading(
        normalizer,
        asked.lang,
        asked.do_text_normalization,
        asked.do_homophone_replacement,
        Lexicon.of(asked.lexicon),
    )
    silences = Silences.of(asked.silence_before, asked.silence_after, asked.paragraph_pause)
    texts = asked.texts()
    wanted = None if asked.refine_text_only else asked.duration
    durations = checked_durations(wanted, asked.text, texts)
    is_timed = any(seconds is not None for seconds in durations)
    # A stream gives all texts at once, so all of them are generated at once.
    together = len(texts) if asked.stream or not asked.split_text else 1
    if asked.split_text:
        together = max(together, checked_batch(asked.max_split_batch))
    if is_timed and silences.are_at_ends:
        raise ConfigError(
            "a duration is that of the speech alone: leave out silence_before and silence_after"
        )
    for one, seconds in zip(texts, durations, strict=True):
        if seconds is not None and has_emphasis(one):
            logger.warning("%s: emphasis has no effect where the speech has a time", shown(one))
    finds_words = asked.word_times or asked.guard is not None
    aligns = finds_words or is_timed or can_emphasise(model, texts)
    read = word_reader(reading) if aligns else None
    found = utterances_of(
        model,
        texts,
        reading,
        read=read,
        split_text=asked.split_text,
        first=first,
        is_strict=asked.must_speak or (isinstance(asked.text, str) and params.ensure_non_empty),
        silences=silences,
        speaker_of=lambda one: text_speaker(model, params, one, reading.lang),
    )
    if model.gpt.batches_itself and not asked.stream:
        together = len(found.utterances)
    show = params.show_tqdm
    heads = () if read is None else alignment_heads(model, cancelled, show=show)
    fitting = None
    if is_timed:
        fitting = fitting_of(
            model, heads, texts, durations, cancelled, may_be_late=asked.may_be_late, show=show
        )
    return InferCall(
        model,
        asked,
        refining,
        params,
        found,
        max(1, together),
        cancelled,
        low_latency,
        read,
        heads,
        fitting,
        calls_back=read is not None and bool(reading.normalizer.normalizers),
    )
