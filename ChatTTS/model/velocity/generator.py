"""Velocity behind the interface that all engines share."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from ...errors import GenerationError
from ...utils.fair_lock import ComputeLock
from ..embed import Embed
from ..generation import Cancellation, Delta, GenerationRequest, check_single
from ..lora.names import Adapters
from ..tokenizer import Tokenizer
from .async_llm_engine import AsyncLLMEngine
from .configs import EngineArgs
from .executor import make_executor
from .llm_engine import LLMEngine
from .output import RequestOutput

# One counter for the process, since several generators may share an engine.
_NUMBERS = itertools.count()


class VelocityGenerator:
    """A :class:`~ChatTTS.model.generation.Generator`; calls from many threads share the batch."""

    def __init__(self, engine: AsyncLLMEngine) -> None:
        self.engine = engine

    @classmethod
    def load(
        cls, args: EngineArgs, compute_lock: ComputeLock, tokenizer: Tokenizer | None = None
    ) -> VelocityGenerator:
        """Load a checkpoint.

        Args:
            compute_lock: held during each step of the engine.
            tokenizer: the checkpoint's, if it has been read already.

        Raises:
            ChatTTSError: a setting has an invalid value, or a file cannot be used.
        """
        config = args.create_engine_config()
        executor = make_executor(config, compute_lock, tokenizer)
        return cls(AsyncLLMEngine(LLMEngine(config, executor)))

    @property
    def embed(self) -> Embed:
        """The embeddings and heads of the model."""
        return self.engine.engine.executor.embed

    @property
    def gives_attention(self) -> bool:
        """Return whether requests may have alignment heads."""
        return self.engine.engine.executor.gives_attention

    @property
    def adapters(self) -> Adapters:
        """The loaded adapters by their names."""
        return self.engine.engine.executor.adapters

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Generator[list[Delta], None, None]:
        """Run ``requests`` together, see :class:`~ChatTTS.model.generation.Generator`.

        Raises:
            TextError: a prompt leaves no room for an answer.
            VoiceError, ConfigError: a request does not fit the model.
            EngineUnavailableError: a request has alignment heads, and the engine runs on kernels
                that do not give attention.
            GenerationError: a prompt does not fit the KV cache; or the model's answer to
                a request cannot be used (with any step). The other requests of this call end then;
                other calls go on.
            EngineDeadError: the engine was closed, or an error ended it (with any step).
        """
        check_single(requests)
        call = next(_NUMBERS)
        names = {f"call-{call}-{index}": index for index in range(len(requests))}
        named = [
            replace(request, request_id=name) for name, request in zip(names, requests, strict=True)
        ]
        return _deltas(self.engine.stream(named, cancelled), names)

    def close(self) -> None:
        """Close the engine; running calls end as if they were cancelled."""
        self.engine.close()


def _deltas(
    steps: Generator[list[RequestOutput], None, None], indices: Mapping[str, int]
) -> Generator[list[Delta], None, None]:
    """Yield the deltas of each step, with the index of the request in place of the sample's."""
    with closing(steps):
        for outputs in steps:
            deltas: list[Delta] = []
            for output in outputs:
                if output.error is not None:
                    raise GenerationError(output.error)
                index = indices[output.request_id]
                deltas.extend(replace(delta, index=index) for delta in output.deltas)
            yield deltas
