"""Velocity behind the one interface of generation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import fields

import torch

from ...errors import GenerationError
from ...utils.fair_lock import ComputeLock
from ..embed import Embed
from ..generation import Cancellation, Delta, GenerationRequest, Sampling
from .async_llm_engine import AsyncLLMEngine
from .configs import EngineArgs
from .executor import InProcessExecutor
from .llm_engine import LLMEngine
from .request import EngineRequest
from .sampling_params import SamplingParams

# Of the whole process, so that generators may share an engine.
_NUMBERS = itertools.count()


class VelocityGenerator:
    """A :class:`~ChatTTS.model.generation.Generator`; calls from many threads share the batch."""

    def __init__(self, engine: AsyncLLMEngine) -> None:
        self.engine = engine

    @classmethod
    def load(cls, args: EngineArgs, compute_lock: ComputeLock) -> VelocityGenerator:
        """Load a checkpoint; each step holds ``compute_lock``.

        Raises:
            ChatTTSError: a setting that makes no sense, or a file that cannot be used.
        """
        config = args.create_engine_config()
        return cls(AsyncLLMEngine(LLMEngine(config, InProcessExecutor(config, compute_lock))))

    @property
    def embed(self) -> Embed:
        """Embeddings and heads."""
        return self.engine.engine.executor.embed

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        """See :class:`~ChatTTS.model.generation.Generator`.

        Raises:
            TextError: a prompt leaves no room for an answer; no request was begun then.
            VoiceError, ConfigError: a request that does not fit the model.
            GenerationError: the model's answer to a request cannot be used. The others of the
                call end with it, other calls go on.
            EngineDeadError: the engine was closed, or an error ended it.
        """
        call = next(_NUMBERS)
        names = [f"call-{call}-{row}" for row in range(len(requests))]
        rows = {name: row for row, name in enumerate(names)}
        engine_requests = [
            EngineRequest(name, request.prompt, _params(request.sampling), request.key)
            for name, request in zip(names, requests, strict=True)
        ]
        with closing(self.engine.stream(engine_requests, cancelled)) as steps:
            for outputs in steps:
                deltas: list[Delta] = []
                for output in outputs:
                    if output.error is not None:
                        raise GenerationError(output.error)
                    row = rows[output.request_id]
                    deltas.extend(
                        Delta(row, torch.from_numpy(d.ids), d.hiddens, d.finish)
                        for d in output.deltas
                    )
                yield deltas

    def close(self) -> None:
        """Close the engine; calls that still run end as if they were cancelled."""
        self.engine.close()


def _params(sampling: Sampling) -> SamplingParams:
    return SamplingParams(**{f.name: getattr(sampling, f.name) for f in fields(Sampling)})
