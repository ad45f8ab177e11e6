"""Velocity for scripts: many prompts in, complete answers out, in order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ...config import Config
from ...config.front_ends import front_end_named
from ...errors import ConfigError, GenerationError
from ...params import InferCodeParams, RefineTextParams
from ...utils.progress import progress
from ..generation import Delta, GenerationRequest
from ..merge_deltas import merge_deltas
from ..random_numbers import DrawKey, Pass
from ..sampling_params import SamplingParams
from ..speaker import Speaker
from ..tokenizer import Prompt, Tokenizer
from .async_llm_engine import AsyncLLMEngine
from .configs import EngineArgs
from .output import Completion, GenerationResult, mean_logprob
from .tokenizer_group import TokenizerGroup

T = TypeVar("T")

# One counter for the process, since several objects may share an engine.
_NUMBERS = itertools.count()


class LLM:
    """The language model of a checkpoint, without the audio: texts to codes or refined texts.

        from ChatTTS.model.velocity.llm import LLM

        with LLM("path/to/checkpoint", dtype="bfloat16") as llm:
            for result in llm.generate(["Good morning.", "Good night."], seeds=7):
                frames = result.completions[0].ids  # int64 [frames, 4]

    Texts are used unchanged; ``Chat`` is what normalises, splits and speaks them. Several threads
    may use one object, and their prompts share the batch.

    Args:
        model: the checkpoint's folder: the one that holds ``asset/``, or that folder itself.
        engine: an engine of the same checkpoint that is running already. :meth:`close` leaves it
            open.
        engine_args: the other fields of ``EngineArgs``, such as ``dtype`` and ``kv_memory``.

    Raises:
        ChatTTSError: a setting has an invalid value, or a file cannot be used.
    """

    def __init__(
        self, model: str | Path, *, engine: AsyncLLMEngine | None = None, **engine_args: Any
    ) -> None:
        if engine is not None and engine_args:
            raise ConfigError(f"a running engine takes no {', '.join(engine_args)}: leave them out")
        inner = Path(model) / "asset"
        folder = inner if inner.is_dir() else Path(model)
        name = Config.from_file(folder / "config.json").defaults.pronunciation
        front_end = None if name is None else front_end_named(name)
        self.tokens = TokenizerGroup(Tokenizer(folder / "tokenizer", front_end))
        self._owns_engine = engine is None
        self.engine = engine or AsyncLLMEngine.from_engine_args(EngineArgs(model, **engine_args))
        executor = self.engine.engine.executor
        self._config = executor.checkpoint
        self._speaker = Speaker(
            self._config.gpt.hidden_size, self._config.spk_stat, executor.placement.device
        )

    def default_sampling_params(self, kind: Pass = Pass.CODE) -> SamplingParams:
        """Return the checkpoint's settings, which ``generate`` uses by default."""
        num_codebooks = self._config.gpt.num_vq if kind is Pass.CODE else 1
        return SamplingParams.from_params(self._defaults(kind), num_codebooks)

    def generate(
        self,
        prompts: str | Prompt | Sequence[str | Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        kind: Pass = Pass.CODE,
        seeds: int | Sequence[int] | None = None,
        tags: str | None = None,
        speaker: Any = None,
        use_tqdm: bool = True,
        adapter: str | None = None,
    ) -> list[GenerationResult]:
        """Run all prompts together and wait for all of them.

        Args:
            prompts: texts, or finished ``Prompt`` objects.
            sampling_params: one for all prompts, or one for each.
            kind: ``Pass.CODE`` returns frames of codes, ``Pass.REFINE`` texts.
            seeds: one for all prompts, or one for each; by default from torch's global generator.
            tags: control tags for texts, such as ``[speed_5]``; by default the checkpoint's.
            speaker: for texts: a name that the checkpoint knows, a speaker string, or H floats;
                by default that of the adapter, else the checkpoint's default speaker, if there is
                one. The engine reads no texts, so their language chooses no speaker here.
            use_tqdm: show a progress bar.
            adapter: the name of a loaded adapter; by default the checkpoint alone.

        Returns:
            One result for each prompt, in order.

        Raises:
            TextError, VoiceError, ConfigError: a prompt or setting does not fit the model.
            GenerationError: a prompt does not fit the KV cache, or the model's answer
                cannot be used.
            EngineDeadError: the engine was closed, or an error ended it.
        """
        given = [prompts] if isinstance(prompts, (str, Prompt)) else list(prompts)
        count = len(given)
        params = sampling_params or self.default_sampling_params(kind)
        chosen: int | Sequence[int] = (
            [int(seed) for seed in torch.randint(2**63 - 1, (count,))] if seeds is None else seeds
        )
        vector = self._vector(speaker, adapter) if kind is Pass.CODE else None
        tags = self._defaults(kind).prompt if tags is None else tags
        call = next(_NUMBERS)
        requests = [
            GenerationRequest(
                self.tokens.prompt(prompt, kind, tags=tags, speaker=vector)
                if isinstance(prompt, str)
                else prompt,
                sampling,
                DrawKey(_seed(seed), kind),
                adapter=adapter,
                request_id=f"llm-{call}-{index}",
            )
            for index, (prompt, sampling, seed) in enumerate(
                zip(
                    given,
                    _one_for_each(params, count, "sampling_params"),
                    _one_for_each(chosen, count, "seeds"),
                    strict=True,
                )
            )
        ]
        return self._run(requests, use_tqdm)

    def close(self) -> None:
        """End the threads, and the engine unless the caller gave it."""
        if self._owns_engine:
            self.engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, requests: Sequence[GenerationRequest], use_tqdm: bool) -> list[GenerationResult]:
        gained: dict[str, dict[int, list[Delta]]] = {r.request_id: {} for r in requests}
        with (
            closing(self.engine.stream(requests)) as steps,
            progress("generating", "prompt", use_tqdm, len(requests)) as bar,
        ):
            for outputs in steps:
                for output in outputs:
                    if output.error is not None:
                        index = list(gained).index(output.request_id)
                        raise GenerationError(f"prompt {index}: {output.error}")
                    samples = gained[output.request_id]
                    for delta in output.deltas:
                        samples.setdefault(delta.index, []).append(delta)
                    bar.update(output.finished)
        return [self._result(request, gained[request.request_id]) for request in requests]

    def _result(
        self, request: GenerationRequest, samples: dict[int, list[Delta]]
    ) -> GenerationResult:
        kind = request.key.kind
        completions = (self._completion(kind, samples[index]) for index in sorted(samples))
        return GenerationResult(request.request_id, tuple(completions))

    def _completion(self, kind: Pass, deltas: Sequence[Delta]) -> Completion:
        whole = merge_deltas(deltas)
        assert whole.finish is not None
        ids, text = whole.ids.numpy(), None
        if kind is Pass.REFINE:
            text = self.tokens.tokenizer.decode_refined(ids[:, 0]).strip()
        return Completion(whole.index, ids, whole.hiddens, whole.finish, mean_logprob(whole), text)

    def _defaults(self, kind: Pass) -> RefineTextParams:
        defaults = self._config.defaults
        if kind is Pass.CODE:
            return InferCodeParams().with_defaults(defaults.code)
        return RefineTextParams().with_defaults(defaults.refine)

    def _vector(self, speaker: Any, adapter: str | None) -> NDArray[np.float32] | None:
        defaults = self._config.defaults
        if speaker is None and adapter is not None:
            trained = self.engine.engine.executor.adapters.get(adapter)
            speaker = None if trained is None else trained.speaker
        if speaker is None:
            speaker = defaults.speaker
        if isinstance(speaker, str):
            speaker = defaults.speakers.get(speaker, speaker)
        return None if speaker is None else self._speaker.vector(speaker)


def _seed(given: Any) -> int:
    if not isinstance(given, Integral):
        raise ConfigError(f"a seed must be a whole number, not {given!r}")
    return int(given)  # numpy's integers have at most 64 bits


def _one_for_each(given: T | Sequence[T], count: int, name: str) -> Sequence[T]:
    """Repeat ``given`` for each of ``count`` prompts, unless it is a sequence of that length."""
    if not isinstance(given, Sequence):
        return [given] * count
    if len(given) != count:
        raise ConfigError(f"{name} has {len(given)} entries for {count} prompts: give one for each")
    return given
