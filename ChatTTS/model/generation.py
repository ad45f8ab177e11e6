"""The interface of every engine: requests in, and what they gain in each step out."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from ..config import AlignmentHeads
from ..errors import ConfigError, TextError, shown
from ..params import COUNT_OR_NONE, NumberRule, read_flag, read_numbers
from .random_numbers import DrawKey
from .sampling_params import SamplingParams
from .tokenizer import Prompt

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

NOT_FINITE = (
    "the model gave logits that are not finite: its weights are damaged (check them with "
    "`chattts verify`) or too large for this dtype (load with dtype='float32')"
)
NO_ATTENTION = (
    "the kernels of this engine do not give attention, from which the times of words are found: "
    "load without tensor_parallel_size, pipeline_parallel_size and distributed_executor_backend"
)


class FinishReason(str, Enum):
    """The reason for an end: the model drew the end, a length limit, or a cancellation."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class Cancellation:
    """A flag that ends one call. Any thread may set it.

    Args:
        outer: an event of the caller's that also ends the call. If its ``is_set`` raises, it
            counts as set, and the error is logged.

    Raises:
        ConfigError: ``outer`` is not an event.
    """

    def __init__(self, outer: threading.Event | Cancellation | None = None) -> None:
        if outer is not None and not callable(getattr(outer, "is_set", None)):
            raise ConfigError(
                f"interrupt must be an event such as threading.Event(), not {shown(outer)}"
            )
        self._is_set = False
        self._outer = outer

    def set(self) -> None:
        """End the call within a step. This takes no lock: the garbage collector may call it."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether the call must end."""
        return self._is_set or (self._outer is not None and self._ask(self._outer))

    def _ask(self, outer: threading.Event | Cancellation) -> bool:
        """Return whether the caller's event is set, and raise none of its errors.

        The engine's thread calls this too, and an error there would end the calls of others.
        """
        try:
            return bool(outer.is_set())
        except BaseException as error:
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and isinstance(error, KeyboardInterrupt):
                raise  # Ctrl-C
            self._is_set = True
            kind = type(error).__name__
            logger.warning("a call ends, since its interrupt event raised %s", kind, exc_info=error)
            return True


def check_length(prompt: Prompt, max_positions: int) -> None:
    """Check that a prompt leaves room for an answer.

    Raises:
        TextError: it has as many positions as the model, or more.
    """
    if len(prompt) >= max_positions:
        raise TextError(
            f"the prompt has {len(prompt)} positions and the model {max_positions}: shorten the "
            "text or the sample prompt"
        )


def check_single(requests: Sequence[GenerationRequest]) -> None:
    """Check that each request asks for one answer, as a :class:`Generator` gives it.

    Raises:
        ConfigError: one asks for more.
    """
    for request in requests:
        if request.sampling.n != 1:
            raise ConfigError(
                f"n is {request.sampling.n}, and speech needs one answer for each prompt: use "
                "LLM.generate for more"
            )


@dataclass(frozen=True)
class Listener:
    """A listener who plays an answer while it is generated.

    Attributes:
        first: frames that must come before any of them can be heard.
        rate: frames that are played a second.
        waits: whether nothing plays before this answer, so that its first frames are waited for.

    Raises:
        ConfigError: a value is invalid; the message names it.
    """

    first: int
    rate: float
    waits: bool = True

    def __post_init__(self) -> None:
        read_numbers(self, _LISTENER_RULES, " of a listener")
        object.__setattr__(self, "waits", read_flag("waits of a listener", self.waits))


_LISTENER_RULES: Mapping[str, NumberRule[int] | NumberRule[float]] = {
    "first": COUNT_OR_NONE,
    "rate": NumberRule(float, "above 0 and finite", lambda number: 0 < number < math.inf),
}


@dataclass(frozen=True)
class GenerationRequest:
    """One prompt and all that its answer depends on.

    Attributes:
        sampling: a :class:`Generator` gives one answer, so ``n`` is 1 there.
        key: of the draws. ``key.kind`` tells whether the answer is text ids or frames of codes.
            Velocity's sample i has ``key.sample + i``.
        alignment_heads: pairs of a layer and a head, counted from 0, whose attention over the
            prompt's text the deltas give; none by default, which costs nothing.
        adapter: the name of a loaded adapter; ``None`` for the checkpoint alone.
        request_id: velocity's; unique among its unfinished requests.
        priority: velocity's; lower comes first, if the engine's policy is ``priority``.
        listener: velocity's; while others wait for their first sound, an answer that is ahead of
            its listener may wait. Without one it never does.
    """

    prompt: Prompt
    sampling: SamplingParams
    key: DrawKey
    alignment_heads: AlignmentHeads = ()
    adapter: str | None = None
    request_id: str = ""
    priority: float = 0
    listener: Listener | None = None


@dataclass(frozen=True)
class Delta:
    """The gain of one answer since its last delta.

    Attributes:
        index: which answer this is: the index of its request among those given to
            :meth:`Generator.generate`, or of the sample within one request of velocity.
        ids: int64 on the CPU: [n, num_codebooks] frames, or [n, 1] text ids. The id or frame
            that ends the answer is never among them.
        hiddens: [n, hidden]; row i is the hidden state that row i of ``ids`` was drawn from.
        finish: why the answer ended with this delta, or ``None`` while it goes on.
        logprob: sum of the log-probabilities of all ids of the answer so far; NaN from the
            standard engine, which does not compute it.
        attention: float32 [n, heads, text ids] on the CPU, of the request's ``alignment_heads`` in
            their order; ``None`` where it has none, and in a delta without ids. Row i belongs to
            the position that row i of ``ids`` was drawn from: the last one of the prompt for the
            first id, and the position of the id before for each later one. The probabilities of a
            head are over all positions up to its own, so those of the text need not sum to 1.
    """

    index: int
    ids: Tensor
    hiddens: Tensor
    finish: FinishReason | None
    logprob: float = math.nan
    attention: Tensor | None = None


class Generator(Protocol):
    """An engine."""

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        """Run ``requests`` together; return an iterator over what they gain in each step.

        The requests are checked in this call, and begin when the first step is asked for. Every
        request ends with exactly one delta that has a finish reason. Once ``cancelled`` is set,
        that happens within a step, and the reason is ``FinishReason.ABORT``. Closing the iterator
        ends all requests and frees their memory.

        Raises:
            TextError: a prompt leaves no room for an answer.
        """
        ...

    def close(self) -> None:
        """End all requests, and release threads and memory. May be called twice."""
        ...


# Returns what requests gained in a step, or raises what ended them. Asked once, step by step.
Gain: TypeAlias = Callable[[], list[Delta]]


class Answers(Protocol):
    """The answers to some requests, which an engine pushes."""

    def begin(self) -> None:
        """Add the requests to the engine, all or none."""
        ...

    def cancelled(self) -> list[Delta]:
        """Return the deltas that end all requests, of which none was begun, as a cancellation."""
        ...

    def abandon(self) -> None:
        """End the requests within a step. It takes no lock: the garbage collector may call it."""
        ...


@runtime_checkable
class PushingGenerator(Generator, Protocol):
    """An engine whose callers need no thread that waits for its steps."""

    def answers(
        self,
        requests: Sequence[GenerationRequest],
        cancelled: Cancellation,
        receive: Callable[[Gain], object],
    ) -> Answers:
        """Return the answers to ``requests``, which run together once they are begun.

        The deltas are those of :meth:`Generator.generate`.

        Args:
            receive: takes what the requests gained in each step. The engine's thread calls it, so
                it must neither wait nor raise. It may get some more after :meth:`Answers.abandon`.

        Raises:
            TextError: a prompt leaves no room for an answer.
        """
        ...
