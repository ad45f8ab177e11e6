"""From texts to generated frames: prompts, voices, batches and retries.

This is the part of a call between the text and the sound. It knows no engine and no audio.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import TextError, VoiceError
from ..model.draws import DrawKey, Pass
from ..model.generation import Cancellation, Delta, FinishReason, GenerationRequest, Sampling
from ..model.speaker import decode_sample
from ..model.tokenizer import code_prompt, refine_prompt
from ..params import InferCodeParams, RefineTextParams
from ..text.duration import longest_seconds
from ..text.tags import without_border_breaks
from .model import Model
from .schedules import FRAMES_PER_SECOND

logger = logging.getLogger(__name__)

# How often a row that ends at its first frame is tried in all.
MAX_ATTEMPTS = 5
# How often one that finds no end is tried in all: each attempt takes long.
MAX_RUNAWAYS = 3


@dataclass(frozen=True)
class Utterance:
    """A piece of a text that is spoken in one go: number ``index`` of text ``row``.

    ``number`` is what it draws by: its index, unless the text continues an earlier one.
    """

    row: int
    index: int
    text: str
    first: int = 0

    @property
    def number(self) -> int:
        """Index in the whole text."""
        return self.first + self.index

    @property
    def spoken(self) -> str:
        """What the model is given: breaks at the borders of the text are silence."""
        return without_border_breaks(self.text).spoken


@dataclass(frozen=True)
class Voice:
    """Who speaks: a speaker vector, a sample with its transcript, both, or neither.

    Attributes:
        speaker: float32 [hidden].
        sample: codes, int64 [frames, num_codebooks].
        transcript: what the sample says; without a sample, words before the text.
    """

    speaker: NDArray[np.float32] | None = None
    sample: NDArray[np.int64] | None = None
    transcript: str | None = None

    @property
    def is_named(self) -> bool:
        """Whether anything fixes the voice."""
        return self.speaker is not None or self.sample is not None


@dataclass(frozen=True)
class Gain:
    """What an utterance gained; ``delta.index`` is not its row in the call.

    Attributes:
        is_anew: the utterance begins again with this gain; what came of it before is void.
    """

    utterance: Utterance
    delta: Delta
    is_anew: bool = False


def resolve_voice(model: Model, params: InferCodeParams) -> Voice:
    """The voice that ``params`` ask for, else the checkpoint's default speaker, else none.

    Raises:
        VoiceError: a string or vector that is no voice of this model.
    """
    defaults = model.config.defaults
    speaker = params.spk_emb
    if speaker is None and params.spk_smp is None and defaults.speaker is not None:
        speaker = defaults.speaker
    if isinstance(speaker, str):
        speaker = str.__str__(speaker)  # it becomes a key that other callers' strings meet
        speaker = defaults.speakers.get(speaker, speaker)
    sample = None
    if params.spk_smp is not None:
        embed = model.config.embed
        string = params.spk_smp
        sample = model.samples.get_or_make(
            string, lambda: decode_sample(string, embed.num_vq, embed.num_audio_tokens - 1)
        )
        if not defaults.samples_trained:
            logger.warning(
                "this checkpoint never learned to follow sample prompts (spk_smp): expect wrong or "
                "empty speech, or use a speaker (spk_emb), or a full ChatTTS checkpoint"
            )
        if not params.txt_smp:
            logger.warning("spk_smp without txt_smp: the voice needs the sample's exact transcript")
    elif params.txt_smp:
        logger.warning("txt_smp without spk_smp: it is spoken as the beginning of each text")
    return Voice(_vector(model, speaker), sample, params.txt_smp)


def _vector(model: Model, speaker: Any) -> NDArray[np.float32] | None:
    """The vector of a speaker; where it is none, the checkpoint's own speakers are named."""
    if speaker is None:
        return None
    try:
        if isinstance(speaker, str):
            return model.vectors.get_or_make(speaker, lambda: model.speaker.vector(speaker))
        return model.speaker.vector(speaker)
    except VoiceError as error:
        names = ", ".join(model.config.defaults.speakers)
        if not names:
            raise
        raise VoiceError(f"{error}; the speakers that this checkpoint knows: {names}") from error


def choose_seed(params: RefineTextParams) -> int:
    """The given seed, or one from torch's global generator (in the calling thread)."""
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
    """Run the refine pass; gives each utterance with its new text as it is done.

    An answer that stays empty leaves the utterance as it was, with a warning, since its text can
    be spoken all the same. So does an interrupt.
    """
    sampling = Sampling.from_params(params, num_codebooks=1)
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
    for batch in _batches(utterances, batch_size, first_alone=False):
        answers: dict[Utterance, list[torch.Tensor]] = {u: [] for u in batch}
        for gain in _generate(model, {u: requests[u] for u in batch}, params, cancelled):
            u = gain.utterance
            answers[u].append(gain.delta.ids)
            if gain.delta.finish is None:
                continue
            ids = torch.cat(answers[u]).flatten().numpy()
            text = model.tokenizer.decode_refined(ids).strip()
            if gain.delta.finish is FinishReason.ABORT:
                text = ""
            elif not text:
                logger.warning("refining gave nothing for %r; it stays as it is", u.text[:40])
            yield replace(u, text=text or u.text)


def speak(
    model: Model,
    utterances: Sequence[Utterance],
    params: InferCodeParams,
    seed: int,
    *,
    batch_size: int,
    first_alone: bool,
    may_begin_anew: bool = False,
    cancelled: Cancellation,
    refined: Callable[[Sequence[Utterance]], Sequence[Utterance]] | None = None,
) -> Iterator[Gain]:
    """Run the speech pass over all utterances, batch by batch; gives what each one gains.

    What cannot be spoken is an error now; the work begins when the first gain is asked for. Every
    utterance ends with exactly one gain that has a finish reason. Where nothing fixes the
    voice, the first utterance of a text becomes the sample prompt of the rest of that text, if the
    checkpoint learned to follow one.

    Args:
        first_alone: generate the first utterance of every text before all the others.
        may_begin_anew: try an utterance again that finds no end, unless ``params`` want no retries;
            a stream cannot, since it has been heard. See ``text/duration.py``.
        refined: what a batch is refined by, before it is spoken.

    Raises:
        TextError, VoiceError, ConfigError: a prompt, voice or setting that does not fit.
    """
    named = resolve_voice(model, params)
    sampling = Sampling.from_params(params, num_codebooks=model.config.embed.num_vq)
    steady = not named.is_named and model.config.defaults.samples_trained
    tries = MAX_RUNAWAYS if may_begin_anew and params.ensure_non_empty else 1
    if sampling.is_greedy:
        tries = 1  # nothing is drawn, so nothing would change
    followed = {u.row for u in utterances if u.index > 0} if steady else set()
    voices: dict[int, Voice] = {}
    first_frames: dict[int, list[torch.Tensor]] = {row: [] for row in followed}

    def request(u: Utterance) -> GenerationRequest:
        voice = voices.get(u.row, named)
        # Words without a sample are spoken, and once is enough.
        says = voice.transcript if voice.sample is not None or u.number == 0 else None
        decorated = code_prompt(
            u.spoken, params.prompt, speaker=voice.speaker is not None, transcript=says
        )
        said = u.text if voice.sample is not None or not says else says + u.text
        bounded = _bounded(sampling, longest_seconds(said, params.prompt))
        key = DrawKey(seed, Pass.CODE, utterance=u.number)
        return _request(model, decorated, voice, bounded, key, u)

    def gains() -> Iterator[Gain]:
        order = sorted(utterances, key=lambda u: u.index)
        for batch in _batches(order, batch_size, first_alone=first_alone or steady):
            if refined is not None:
                batch = refined(batch)
            requests = {u: request(u) for u in batch}
            for gain in _generate(model, requests, params, cancelled, runaways=tries):
                u = gain.utterance
                if u.index == 0 and u.row in followed:
                    if gain.is_anew:
                        first_frames[u.row].clear()
                    first_frames[u.row].append(gain.delta.ids)
                    if gain.delta.finish is not None:
                        codes = torch.cat(first_frames.pop(u.row)).numpy()
                        if 0 < len(codes) < model.config.gpt.max_position_embeddings // 2:
                            said = (named.transcript or "") + u.spoken
                            voices[u.row] = Voice(sample=codes, transcript=said)
                yield gain

    for u in utterances:
        request(u)  # what does not fit is said before any work is done
    return gains()


def _batches(
    utterances: Sequence[Utterance], size: int, *, first_alone: bool
) -> Iterator[Sequence[Utterance]]:
    """Cut into batches; with ``first_alone`` none holds first and later utterances together."""
    firsts = sum(u.index == 0 for u in utterances) if first_alone else 0
    for part in (utterances[:firsts], utterances[firsts:]):
        for start in range(0, len(part), size):
            yield part[start : start + size]


def _request(
    model: Model,
    decorated: str,
    voice: Voice,
    sampling: Sampling,
    key: DrawKey,
    utterance: Utterance,
) -> GenerationRequest:
    prompt = model.tokenizer.prompt(decorated, speaker=voice.speaker, codes=voice.sample)
    limit = model.config.gpt.max_position_embeddings
    if len(prompt) >= limit:
        raise TextError(
            f"the prompt of {utterance.text[:40]!r} has {len(prompt)} positions and the model "
            f"{limit}: shorten the text or the sample prompt, or leave split_text on"
        )
    return GenerationRequest(prompt, sampling, key)


def _bounded(sampling: Sampling, seconds: float) -> Sampling:
    """The settings with no more frames than fit into ``seconds``, unless the caller wants them."""
    most = math.ceil(seconds * FRAMES_PER_SECOND)
    return replace(sampling, max_new=min(sampling.max_new, max(sampling.min_new, most)))


def _generate(
    model: Model,
    requests: dict[Utterance, GenerationRequest],
    params: RefineTextParams,
    cancelled: Cancellation,
    runaways: int = 1,
) -> Iterator[Gain]:
    """Run one batch; rows that end at once are tried again, each alone, and so are those that find
    no end.

    Args:
        runaways: how often to try in all where a row finds no end.
    """
    failed: dict[Utterance, FinishReason] = {}
    yield from _attempt(model, requests, params, cancelled, failed, runaways > 1)
    for utterance, reason in failed.items():
        yield from _again(
            model, utterance, requests[utterance], params, cancelled, reason, runaways
        )


def _again(
    model: Model,
    utterance: Utterance,
    request: GenerationRequest,
    params: RefineTextParams,
    cancelled: Cancellation,
    reason: FinishReason,
    runaways: int,
) -> Iterator[Gain]:
    """Try one row again, with other draws, until an attempt ends well or there were enough.

    Args:
        reason: how the first attempt failed.
    """
    tries = {FinishReason.STOP: MAX_ATTEMPTS if params.ensure_non_empty else 1}
    tries[FinishReason.LENGTH] = runaways
    if request.sampling.is_greedy:
        tries[FinishReason.STOP] = 1
    attempt = 1
    while attempt < tries[reason]:
        again = replace(request, key=replace(request.key, attempt=attempt))
        attempt += 1
        failed: dict[Utterance, FinishReason] = {}
        is_anew = True
        may_fail = attempt < runaways
        for gain in _attempt(model, {utterance: again}, params, cancelled, failed, may_fail):
            yield replace(gain, is_anew=is_anew)
            is_anew = False
        if not failed:
            return
        reason = failed[utterance]
    ids = torch.empty(0, len(request.sampling.temperature), dtype=torch.int64)
    hiddens = torch.empty(0, model.config.gpt.hidden_size)
    yield Gain(utterance, Delta(0, ids, hiddens, FinishReason.STOP), is_anew=True)


def _attempt(
    model: Model,
    requests: dict[Utterance, GenerationRequest],
    params: RefineTextParams,
    cancelled: Cancellation,
    failed: dict[Utterance, FinishReason],
    may_begin_anew: bool,
) -> Iterator[Gain]:
    """Run requests once. An utterance that ends at its first frame goes to ``failed`` instead, and
    so does one that finds no end, where it may begin anew."""
    utterances = list(requests)
    begun = [False] * len(utterances)
    for deltas in model.gpt.generate(list(requests.values()), cancelled):
        for delta in deltas:
            utterance = utterances[delta.index]
            begun[delta.index] |= len(delta.ids) > 0
            if delta.finish is FinishReason.STOP and not begun[delta.index]:
                failed[utterance] = FinishReason.STOP
                continue
            if delta.finish is FinishReason.LENGTH and _is_runaway(requests[utterance], params):
                if may_begin_anew:
                    failed[utterance] = FinishReason.LENGTH
                    continue
                _tell_runaway(utterance, requests[utterance])
            yield Gain(utterance, delta)


def _is_runaway(request: GenerationRequest, params: RefineTextParams) -> bool:
    """Whether the length of the text set the limit, and not the caller."""
    return request.sampling.max_new < params.max_new_token


def _tell_runaway(utterance: Utterance, request: GenerationRequest) -> None:
    logger.warning(
        "%r found no end and was cut after %.0f s: try another seed, or other words",
        utterance.text[:40],
        request.sampling.max_new / FRAMES_PER_SECOND,
    )
