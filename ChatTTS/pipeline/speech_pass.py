"""The speech pass: utterances to frames, batch by batch, each in the voice of its text.

This part of a call knows no particular engine and no audio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

import torch

from ..config import AlignmentHeads
from ..model.generation import Cancellation, GenerationRequest, Listener
from ..model.random_numbers import DrawKey, Pass
from ..model.sampling_params import SamplingParams
from ..model.tokenizer import code_prompt
from ..params import InferCodeParams
from ..text.duration import longest_seconds
from .attempts import MAX_RUNAWAYS, BatchGenerator, MakeAlignment
from .decode.schedules import FRAMES_PER_SECOND
from .model import Model
from .requests import batches_of, request_of
from .routines import Routine, Tell, told_by
from .utterance import Utterance, UtteranceUpdate
from .voice import Voice, resolve_voice, with_speaker

# Refines the texts of utterances.
Refine: TypeAlias = Callable[[Sequence[Utterance]], Routine[list[Utterance]]]


class SpeechPass:
    """Speaks the utterances of a call.

    Where nothing fixes the voice, the first utterance of a text becomes the sample prompt of the
    rest of that text, if the checkpoint was trained to follow one.

    Args:
        batch_size: utterances that are generated side by side.
        may_restart: try an utterance again that finds no end, unless ``params`` want no retries. A
            stream that gave out its earlier samples cannot. See ``text/duration.py``.
        alignment_heads: those whose attention the updates carry.
        align: makes the alignments of attempts, which need ``alignment_heads``.
        mends: whether an utterance with faults is generated again; it needs ``align``. A listener
            then gets an utterance only when it is kept.
        heard_from: frames that come before the first sound of an utterance whose listener hears it
            while it is generated; the first one of every text comes before all the others then.
            ``None`` for no listener.

    Raises:
        TextError, VoiceError, ConfigError: a prompt, voice or setting does not fit.
    """

    def __init__(
        self,
        model: Model,
        utterances: Sequence[Utterance],
        params: InferCodeParams,
        seed: int,
        *,
        batch_size: int,
        cancelled: Cancellation,
        may_restart: bool = False,
        alignment_heads: AlignmentHeads = (),
        align: MakeAlignment | None = None,
        mends: bool = False,
        heard_from: int | None = None,
    ) -> None:
        # Sound that was given out cannot be generated again.
        holds_back = mends and heard_from is not None
        self._heard_from = None if holds_back else heard_from
        self._model, self._params, self._seed = model, params, seed
        self._utterances = sorted(utterances, key=lambda u: u.index)
        self._batch_size, self._alignment_heads = batch_size, alignment_heads
        self._cancelled = cancelled
        self._named = resolve_voice(model, params)
        self._sampling = SamplingParams.from_params(params, num_codebooks=model.config.embed.num_vq)
        is_free = self._named.speaker is None and self._named.sample is None
        is_steady = is_free and model.config.defaults.samples_trained
        self._first_alone = heard_from is not None or is_steady
        # The texts whose first utterance the others follow; the voices of those that have ended.
        self._followed = {u.text_index for u in utterances if u.index > 0} if is_steady else set()
        self._voices: dict[int, Voice] = {}
        names = {u.speaker for u in utterances if u.speaker is not None}
        self._speakers = {name: with_speaker(model, self._named, name) for name in names}
        # Of a greedy request nothing is drawn, so another attempt would be equal.
        tries_again = may_restart and params.ensure_non_empty and not self._sampling.is_greedy
        self._generator = BatchGenerator(
            model,
            params,
            cancelled,
            runaways=MAX_RUNAWAYS if tries_again else 1,
            align=align,
            mends=mends,
            holds_back=holds_back,
        )
        # Made before any work is done, since some raise.
        self._made = {u: self.request(u) for u in self._utterances}

    def _batches(self) -> Iterator[Sequence[Utterance]]:
        """Yield the utterances in the batches that are generated.

        Where first utterances are generated alone, no batch mixes them with later ones.
        """
        firsts = sum(u.index == 0 for u in self._utterances) if self._first_alone else 0
        parts = self._utterances[:firsts], self._utterances[firsts:]
        return chain.from_iterable(batches_of(part, self._batch_size) for part in parts)

    def updates(self) -> Iterator[UtteranceUpdate]:
        """Speak in this thread, and yield the new frames of all utterances."""
        return told_by(self.speak, self._model.gpt, self._cancelled)

    def speak(self, tell: Tell[UtteranceUpdate], refine: Refine | None = None) -> Routine[None]:
        """Generate all utterances, and tell of their new frames.

        Every utterance ends with exactly one update that has a finish reason.

        Args:
            refine: refines the texts of each batch before it is spoken.
        """
        frames: dict[int, list[torch.Tensor]] = {index: [] for index in self._followed}

        def follow(update: UtteranceUpdate) -> None:
            utterance = update.utterance
            if self.is_followed(utterance):
                gained = frames[utterance.text_index]
                if update.is_restart:
                    gained.clear()
                gained.append(update.delta.ids)
                if update.delta.finish is not None:
                    self.follow(utterance, frames.pop(utterance.text_index))
            tell(update)

        for batch in self._batches():
            if refine is not None:
                batch = yield from refine(batch)
            yield from self._generator.run({u: self._asked(u) for u in batch}, follow)

    def _asked(self, u: Utterance) -> GenerationRequest:
        """Return the request of an utterance that is about to be generated."""
        made = self._made.pop(u, None)
        has_own_voice = u.text_index in self._voices  # it may be known only now
        return self.request(u) if made is None or has_own_voice else made

    @property
    def is_greedy(self) -> bool:
        """Return whether equal requests have equal answers."""
        return self._sampling.is_greedy

    def is_followed(self, utterance: Utterance) -> bool:
        """Return whether the utterance has to be spoken before the others of its text."""
        return utterance.index == 0 and utterance.text_index in self._followed

    def follow(self, first: Utterance, frames: Sequence[torch.Tensor]) -> None:
        """Make an utterance that has ended the sample prompt of the rest of its text."""
        codes = torch.cat(list(frames)).numpy()
        if 0 < len(codes) < self._model.config.gpt.max_position_embeddings // 2:
            said = (self._named.transcript or "") + first.spoken
            self._voices[first.text_index] = Voice(sample=codes, transcript=said)

    def request(
        self, u: Utterance, settings: str | None = None, *, sample: int = 0
    ) -> GenerationRequest:
        """Return the request of an utterance, in the voice that its text has by now.

        Args:
            settings: control tags before the text; those of the parameters by default.
            sample: number among several answers to it, each of which has its own draws.

        Raises:
            TextError: the prompt leaves no room for an answer.
        """
        settings = self._params.prompt if settings is None else settings
        own = self._named if u.speaker is None else self._speakers[u.speaker]
        voice = self._voices.get(u.text_index, own)
        # A transcript without a sample is spoken, so only the first utterance gets it.
        says = voice.transcript if voice.sample is not None or u.number == 0 else None
        decorated = code_prompt(
            u.spoken, settings, speaker=voice.speaker is not None, transcript=says
        )
        said = u.text if voice.sample is not None or not says else says + u.text
        sampling = _bounded(self._sampling, longest_seconds(said, settings))
        key = DrawKey(self._seed, Pass.CODE, utterance=u.number, sample=sample)
        request = request_of(self._model, u, decorated, sampling, key, voice)
        return replace(
            request,
            alignment_heads=self._alignment_heads,
            adapter=self._named.adapter,
            listener=self._listener(u),
        )

    def _listener(self, u: Utterance) -> Listener | None:
        if self._heard_from is None:
            return None
        return Listener(self._heard_from, FRAMES_PER_SECOND, waits=u.index == 0)


def _bounded(sampling: SamplingParams, seconds: float) -> SamplingParams:
    """Limit the new frames to ``seconds``, but to no less than the caller's minimum."""
    frames = math.ceil(seconds * FRAMES_PER_SECOND)
    return replace(sampling, max_new=min(sampling.max_new, max(sampling.min_new, frames)))
