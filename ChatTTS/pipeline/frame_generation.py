"""From texts to generated frames: prompts, voices, batches and retries.

This part of a call knows no particular engine and no audio.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import torch

from ..config import AlignmentHeads
from ..errors import TextError
from ..model.draws import DrawKey, Pass
from ..model.generation import Cancellation, Delta, FinishReason, GenerationRequest
from ..model.joined import join
from ..model.sampling_params import SamplingParams
from ..model.tokenizer import code_prompt, refine_prompt
from ..params import InferCodeParams, RefineTextParams
from ..text.duration import longest_seconds
from .guard import Guard
from .model import Model
from .refined_words import keeps_words
from .results import Fault
from .schedules import FRAMES_PER_SECOND
from .utterance import Utterance, UtteranceUpdate
from .voice import Voice, resolve_voice

logger = logging.getLogger(__name__)

# Attempts, in all, at an utterance that ends at its first frame.
MAX_ATTEMPTS = 5
# Attempts, in all, at an utterance that finds no end. Fewer, since each takes long.
MAX_RUNAWAYS = 3
# Attempts, in all, at an utterance in which the guard finds faults.
MAX_FAULTY = 4


@dataclass
class _Spoken:
    """An attempt at an utterance up to now, with its faults."""

    deltas: list[Delta] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @property
    def is_faulty(self) -> bool:
        """Return whether it is over and has faults; one that the caller ended is not judged."""
        ended = self.deltas[-1].finish not in (None, FinishReason.ABORT)
        return ended and bool(self.faults)

    @property
    def badness(self) -> int:
        """The number of words that its faults concern; one without words counts as one."""
        return sum(max(1, fault.words) for fault in self.faults)

    def joined(self) -> Delta:
        """Return all its frames as one delta."""
        return join(self.deltas)


class _Failure(Enum):
    """A reason to generate an utterance again."""

    EMPTY = "it ended at its first frame"
    RUNAWAY = "it found no end"
    FAULTY = "the guard found faults"


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

    Where the pass gives no text, the utterance keeps its own, with a warning. After an interrupt
    it keeps its own without one, and where a pass that shall keep the words has changed them. So
    does an utterance that a voice can say, but not spell: this pass reads and writes letters.
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
    generator = _BatchGenerator(model, params, cancelled)
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
    guard: Guard | None = None,
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
        holds_back: yield an utterance that the guard may try again only when it is kept.
        refined: refines the texts of a batch before it is spoken.
        alignment_heads: those whose attention the updates carry.
        guard: finds faults of utterances; it needs ``alignment_heads``.

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
    generator = _BatchGenerator(
        model, params, cancelled, runaways=tries, guard=guard, holds_back=holds_back
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


@dataclass(frozen=True)
class _BatchGenerator:
    """Runs a batch, then tries again, one by one, the utterances that failed.

    An utterance fails where it ends at its first frame, where it finds no end, or where the guard
    finds faults in it. Of faulty attempts the one with the fewest faulty words is kept, the
    earliest one of several.

    Attributes:
        runaways: attempts, in all, at an utterance that finds no end.
        guard: finds the faults, if they are wanted.
        holds_back: whether to yield an utterance that may be tried again only when it is kept.
    """

    model: Model
    params: RefineTextParams
    cancelled: Cancellation
    runaways: int = 1
    guard: Guard | None = None
    holds_back: bool = False

    def run(self, requests: dict[Utterance, GenerationRequest]) -> Iterator[UtteranceUpdate]:
        failed: dict[Utterance, _Failure] = {}
        best: dict[Utterance, _Spoken] = {}
        yield from self._attempt(0, requests, failed, best)
        for utterance, reason in failed.items():
            yield from self._retry(utterance, requests[utterance], reason, best)

    def _retry(
        self,
        utterance: Utterance,
        request: GenerationRequest,
        reason: _Failure,
        best: dict[Utterance, _Spoken],
    ) -> Iterator[UtteranceUpdate]:
        """Try one utterance again, with other draws, until it ends well or has no attempts left.

        Args:
            reason: how the first attempt failed.
            best: the best of the faulty attempts.
        """
        tries = {
            _Failure.EMPTY: MAX_ATTEMPTS if self.params.ensure_non_empty else 1,
            _Failure.RUNAWAY: self.runaways,
            _Failure.FAULTY: MAX_FAULTY,
        }
        if request.sampling.is_greedy:
            tries[_Failure.EMPTY] = 1
        attempt = 1
        while attempt < tries[reason]:
            again = replace(request, key=replace(request.key, attempt=attempt))
            failed: dict[Utterance, _Failure] = {}
            is_restart = True
            for update in self._attempt(attempt, {utterance: again}, failed, best):
                yield replace(update, is_restart=is_restart)
                is_restart = False
            if not failed:
                return
            reason = failed[utterance]
            attempt += 1
        ids = torch.empty(0, len(request.sampling.temperature), dtype=torch.int64)
        hiddens = torch.empty(0, self.model.config.gpt.hidden_size)
        nothing = _Spoken([Delta(0, ids, hiddens, FinishReason.STOP)])
        kept = best.get(utterance, nothing)
        joined = kept.joined()
        self._warn_of_cut(utterance, request, joined)
        yield UtteranceUpdate(
            utterance, joined, is_restart=True, faults=tuple(kept.faults), attempts=attempt
        )

    def _attempt(
        self,
        number: int,
        requests: dict[Utterance, GenerationRequest],
        failed: dict[Utterance, _Failure],
        best: dict[Utterance, _Spoken],
    ) -> Iterator[UtteranceUpdate]:
        """Run requests once, and put the utterances that failed into ``failed``.

        Args:
            number: of the attempt, from 0.
            best: takes the faulty attempts that are better than those before.
        """
        utterances = list(requests)
        begun = [False] * len(utterances)
        guards = [None if self.guard is None else self.guard.make(u) for u in utterances]
        spoken = [_Spoken() for _ in utterances]
        for deltas in self.model.gpt.generate(list(requests.values()), self.cancelled):
            for delta in deltas:
                utterance = utterances[delta.index]
                request = requests[utterance]
                begun[delta.index] |= len(delta.ids) > 0
                if delta.finish is FinishReason.STOP and not begun[delta.index]:
                    failed[utterance] = _Failure.EMPTY
                    continue
                if self._is_runaway(request, delta) and number + 1 < self.runaways:
                    failed[utterance] = _Failure.RUNAWAY
                    continue
                guard = guards[delta.index]
                faults = () if guard is None else guard.push(delta)
                if self._retries(request):
                    attempt = spoken[delta.index]
                    attempt.deltas.append(delta)
                    attempt.faults += faults
                    if attempt.is_faulty:
                        kept = best.setdefault(utterance, attempt)
                        best[utterance] = min(kept, attempt, key=lambda each: each.badness)
                        failed[utterance] = _Failure.FAULTY
                        continue
                    if self.holds_back:
                        if delta.finish is None:
                            continue
                        delta, faults = attempt.joined(), tuple(attempt.faults)
                self._warn_of_cut(utterance, request, delta)
                yield UtteranceUpdate(utterance, delta, faults=faults, attempts=number + 1)

    def _is_runaway(self, request: GenerationRequest, delta: Delta) -> bool:
        """Return whether the length of the text ended the frames, not the caller's limit."""
        bounded = request.sampling.max_new < self.params.max_new_token
        return delta.finish is FinishReason.LENGTH and bounded

    def _warn_of_cut(self, utterance: Utterance, request: GenerationRequest, delta: Delta) -> None:
        """Warn of a runaway that is kept."""
        if self._is_runaway(request, delta):
            logger.warning(
                "%r found no end and was cut after %.0f s: try another seed, or other words",
                utterance.shown[:40],
                request.sampling.max_new / FRAMES_PER_SECOND,
            )

    def _retries(self, request: GenerationRequest) -> bool:
        """Return whether an utterance with faults is tried again; a greedy one would be equal."""
        return self.guard is not None and self.guard.retries and not request.sampling.is_greedy
