"""From texts to generated frames: prompts, voices and batches.

This part of a call knows no particular engine and no audio.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from ..config import AlignmentHeads
from ..errors import TextError
from ..model.draws import DrawKey, Pass
from ..model.generation import Cancellation, FinishReason, GenerationRequest
from ..model.sampling_params import SamplingParams
from ..model.tokenizer import code_prompt, refine_prompt
from ..params import InferCodeParams, RefineTextParams
from ..text.duration import longest_seconds
from .attempts import MAX_RUNAWAYS, BatchGenerator, MakeAlignment
from .decode.schedules import FRAMES_PER_SECOND
from .model import Model
from .refined_words import keeps_words
from .utterance import Utterance, UtteranceUpdate
from .voice import Voice, resolve_voice

logger = logging.getLogger(__name__)


def choose_seed(params: RefineTextParams) -> int:
    """Return the given seed, or draw one from torch's global generator."""
    if params.manual_seed is not None:
        return int(params.manual_seed)  # numpy's whole numbers are bounded
    return int(torch.randint(2**63 - 1, ()))


def refine(
    model: Model,
    utterances: Sequence[Utterance],
    params: RefineTextParams,
    seed: int,
    *,
    batch_size: int,
    cancelled: Cancellation,
) -> Iterator[Utterance]:
    """Run the refine pass; yield each utterance with its new text once that is complete.

    An utterance keeps its own text where the pass gives none, with a warning, and without one after
    an interrupt. It also keeps its text where a pass that shall keep the words has changed them,
    and where a voice can say it, but not spell it: this pass reads and writes letters.
    """
    if model.tokenizer.front_end is not None:
        unspelled = [u for u in utterances if not model.tokenizer.spells(u.text)]
        yield from unspelled
        utterances = [u for u in utterances if u not in unspelled]
    only_adds = model.config.defaults.refine_keeps_words
    sampling = SamplingParams.from_params(params, num_codebooks=1)
    requests = {
        u: _request(
            model,
            refine_prompt(u.text, params.prompt),
            Voice(),
            sampling,
            DrawKey(seed, Pass.REFINE, utterance=u.number),
            u,
        )
        for u in utterances
    }
    generator = BatchGenerator(model, params, cancelled)
    for batch in _batches(utterances, batch_size, first_alone=False):
        answers: dict[Utterance, list[torch.Tensor]] = {u: [] for u in batch}
        for update in generator.run({u: requests[u] for u in batch}):
            u = update.utterance
            answers[u].append(update.delta.ids)
            if update.delta.finish is None:
                continue
            ids = torch.cat(answers[u]).flatten().numpy()
            text = model.tokenizer.decode_refined(ids).strip()
            if update.delta.finish is FinishReason.ABORT:
                text = ""
            elif not text:
                logger.warning("refining gave nothing for %r; it stays as it is", u.shown[:40])
            elif only_adds and not keeps_words(u.text, text, params.prompt):
                logger.info("refining changed words of %r; it stays as it is", u.shown[:40])
                text = ""
            yield replace(u, text=text or u.text)


def speak(
    model: Model,
    utterances: Sequence[Utterance],
    params: InferCodeParams,
    seed: int,
    *,
    batch_size: int,
    first_alone: bool,
    may_restart: bool = False,
    holds_back: bool = False,
    cancelled: Cancellation,
    refined: Callable[[Sequence[Utterance]], Sequence[Utterance]] | None = None,
    alignment_heads: AlignmentHeads = (),
    align: MakeAlignment | None = None,
    mends: bool = False,
) -> Iterator[UtteranceUpdate]:
    """Run the speech pass over all utterances, batch by batch; yield their new frames.

    An utterance that cannot be spoken raises at once; the work begins with the first update. Every
    utterance ends with exactly one update that has a finish reason. Where nothing fixes the voice,
    the first utterance of a text becomes the sample prompt of the rest of that text, if the
    checkpoint was trained to follow one.

    Args:
        first_alone: generate the first utterance of every text before all the others.
        may_restart: try an utterance again that finds no end, unless ``params`` want no retries. A
            stream that gave out its earlier samples cannot. See ``text/duration.py``.
        holds_back: yield an utterance that may be generated again only when it is kept.
        refined: refines the texts of a batch before it is spoken.
        alignment_heads: those whose attention the updates carry.
        align: makes the alignments of attempts, which need ``alignment_heads``.
        mends: whether an utterance with faults is generated again; it needs ``align``.

    Raises:
        TextError, VoiceError, ConfigError: a prompt, voice or setting does not fit.
    """
    named = resolve_voice(model, params)
    sampling = SamplingParams.from_params(params, num_codebooks=model.config.embed.num_vq)
    is_free = named.speaker is None and named.sample is None
    steady = is_free and model.config.defaults.samples_trained
    tries = MAX_RUNAWAYS if may_restart and params.ensure_non_empty else 1
    if sampling.is_greedy:
        tries = 1  # nothing is drawn, so another attempt would be equal
    generator = BatchGenerator(
        model,
        params,
        cancelled,
        runaways=tries,
        align=align,
        mends=mends,
        holds_back=holds_back,
    )
    followed = {u.text_index for u in utterances if u.index > 0} if steady else set()
    voices: dict[int, Voice] = {}
    first_frames: dict[int, list[torch.Tensor]] = {text_index: [] for text_index in followed}

    def request(u: Utterance) -> GenerationRequest:
        voice = voices.get(u.text_index, named)
        # A transcript without a sample is spoken, so only the first utterance gets it.
        says = voice.transcript if voice.sample is not None or u.number == 0 else None
        decorated = code_prompt(
            u.spoken, params.prompt, speaker=voice.speaker is not None, transcript=says
        )
        said = u.text if voice.sample is not None or not says else says + u.text
        bounded = _bounded(sampling, longest_seconds(said, params.prompt))
        key = DrawKey(seed, Pass.CODE, utterance=u.number)
        made = _request(model, decorated, voice, bounded, key, u)
        return replace(made, alignment_heads=alignment_heads, adapter=named.adapter)

    def generate() -> Iterator[UtteranceUpdate]:
        order = sorted(utterances, key=lambda u: u.index)
        for batch in _batches(order, batch_size, first_alone=first_alone or steady):
            if refined is not None:
                batch = refined(batch)
            for update in generator.run({u: request(u) for u in batch}):
                u = update.utterance
                if u.index == 0 and u.text_index in followed:
                    if update.is_restart:
                        first_frames[u.text_index].clear()
                    first_frames[u.text_index].append(update.delta.ids)
                    if update.delta.finish is not None:
                        codes = torch.cat(first_frames.pop(u.text_index)).numpy()
                        if 0 < len(codes) < model.config.gpt.max_position_embeddings // 2:
                            said = (named.transcript or "") + u.spoken
                            voices[u.text_index] = Voice(sample=codes, transcript=said)
                yield update

    for u in utterances:
        request(u)  # raises before any work is done
    return generate()


def _batches(
    utterances: Sequence[Utterance], size: int, *, first_alone: bool
) -> Iterator[Sequence[Utterance]]:
    """Yield batches; with ``first_alone`` none mixes first utterances with later ones."""
    firsts = sum(u.index == 0 for u in utterances) if first_alone else 0
    for part in (utterances[:firsts], utterances[firsts:]):
        for start in range(0, len(part), size):
            yield part[start : start + size]


def _request(
    model: Model,
    decorated: str,
    voice: Voice,
    sampling: SamplingParams,
    key: DrawKey,
    utterance: Utterance,
) -> GenerationRequest:
    prompt = model.tokenizer.prompt(decorated, speaker=voice.speaker, codes=voice.sample)
    limit = model.config.gpt.max_position_embeddings
    if len(prompt) >= limit:
        raise TextError(
            f"the prompt of {utterance.shown[:40]!r} has {len(prompt)} positions and the model "
            f"{limit}: shorten the text or the sample prompt, or leave split_text on"
        )
    return GenerationRequest(prompt, sampling, key)


def _bounded(sampling: SamplingParams, seconds: float) -> SamplingParams:
    """Limit the new frames to ``seconds``, but to no less than the caller's minimum."""
    most = math.ceil(seconds * FRAMES_PER_SECOND)
    return replace(sampling, max_new=min(sampling.max_new, max(sampling.min_new, most)))
