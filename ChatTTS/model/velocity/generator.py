"""Velocity behind the interface that all engines share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from ...errors import GenerationError
from ...utils.device_loop import DeviceLoop
from ...utils.fair_lock import ComputeLock
from ..cuda.capture_thread import Capturable
from ..embed import Embed
from ..generation import Cancellation, Delta, Gain, GenerationRequest, check_single
from ..lora.names import Adapters
from ..tokenizer import Tokenizer
from .async_llm_engine import AsyncLLMEngine
from .configs import EngineArgs
from .executor import make_executor
from .llm_engine import LLMEngine
from .output import RequestOutput
from .output_queue import Item, PushOutputQueue
from .output_reader import OutputReader

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
    def shared_loop(self) -> DeviceLoop | None:
        """The engine's loop, where the device works by itself and leaves turns to others."""
        executor = self.engine.engine.executor
        return self.engine.loop if executor.depth > 1 and executor.stages == 1 else None

    @property
    def capturable(self) -> Capturable | None:
        """The steps on a device that are still to be captured, if they ever are."""
        return self.engine.engine.executor.capturable

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
        named = _named(requests)
        return _deltas(self.engine.stream(list(named), cancelled), _indices(named))

    def answers(
        self,
        requests: Sequence[GenerationRequest],
        cancelled: Cancellation,
        receive: Callable[[Gain], object],
    ) -> PushedAnswers:
        """Return the answers to ``requests``, pushed into ``receive`` step by step.

        See :class:`~ChatTTS.model.generation.PushingGenerator`.

        Raises:
            TextError, VoiceError, ConfigError, EngineUnavailableError, GenerationError: as
                :meth:`generate`.
        """
        return PushedAnswers(self.engine, _named(requests), cancelled, receive)

    def close(self) -> None:
        """Close the engine; running calls end as if they were cancelled."""
        self.engine.close()


class PushedAnswers:
    """The :class:`~ChatTTS.model.generation.Answers` of velocity.

    Args:
        requests: with ids of their own.

    Raises:
        TextError, VoiceError, ConfigError, EngineUnavailableError, GenerationError: a request
            cannot be answered.
    """

    def __init__(
        self,
        engine: AsyncLLMEngine,
        requests: Sequence[GenerationRequest],
        cancelled: Cancellation,
        receive: Callable[[Gain], object],
    ) -> None:
        self._engine, self._receive = engine, receive
        self._requests = engine.engine.checked(requests)
        self._indices = _indices(requests)
        self._queue = PushOutputQueue(self._put, cancelled)
        self._reader = OutputReader(engine.engine, self._requests, self._queue)

    def begin(self) -> None:
        """Add the requests to the engine.

        Raises:
            EngineDeadError: the engine was closed, or an error ended it.
        """
        self._engine.submit(self._requests, self._queue)

    def cancelled(self) -> list[Delta]:
        """Return the deltas that end all requests, of which none was begun."""
        return _joined(self._reader.cancelled(), self._indices)

    def abandon(self) -> None:
        """End the requests within a step. It takes no lock: the garbage collector may call it."""
        self._queue.abandon()

    def _put(self, item: Item) -> None:
        self._receive(lambda: _joined(self._reader.read(item), self._indices))


def _named(requests: Sequence[GenerationRequest]) -> list[GenerationRequest]:
    """Return the requests of a call, each with an id that no other one has."""
    check_single(requests)
    call = next(_NUMBERS)
    return [
        replace(request, request_id=f"call-{call}-{index}")
        for index, request in enumerate(requests)
    ]


def _indices(requests: Sequence[GenerationRequest]) -> dict[str, int]:
    return {request.request_id: index for index, request in enumerate(requests)}


def _deltas(
    steps: Generator[list[RequestOutput], None, None], indices: Mapping[str, int]
) -> Generator[list[Delta], None, None]:
    """Yield the deltas of each step, with the index of the request in place of the sample's."""
    with closing(steps):
        for outputs in steps:
            yield _joined(outputs, indices)


def _joined(outputs: Sequence[RequestOutput], indices: Mapping[str, int]) -> list[Delta]:
    """Return the deltas of a step, with the index of the request in place of the sample's."""
    deltas: list[Delta] = []
    for output in outputs:
        if output.error is not None:
            raise GenerationError(output.error)
        index = indices[output.request_id]
        for delta in output.deltas:
            deltas.append(delta if delta.index == index else replace(delta, index=index))
    return deltas
