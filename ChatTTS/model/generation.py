"""The one interface of generation: requests in, deltas out, whichever engine does the work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..errors import ConfigError, shown
from ..params import NO_TOP_K, RefineTextParams
from .draws import DrawKey, Pass
from .tokenizer import Prompt

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

# Below, float32 logits would overflow; long before, a draw is the most probable token anyway.
_LEAST_TEMPERATURE = 1e-20
# Float32 holds more, and its overflow would be a warning, or an error where these are.
_MOST = 1e30


class FinishReason(str, Enum):
    """Why a request ended: by itself, at a limit, or because it was told to."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class Cancellation:
    """Ends one call, from any thread.

    Args:
        outer: an event of the caller's that ends the call too. One that raises when it is asked
            counts as set, and the log says so.

    Raises:
        ConfigError: ``outer`` is no event.
    """

    def __init__(self, outer: threading.Event | Cancellation | None = None) -> None:
        if outer is not None and not callable(getattr(outer, "is_set", None)):
            raise ConfigError(
                f"interrupt must be an event such as threading.Event(), not {shown(outer)}"
            )
        self._is_set = False
        self._outer = outer

    def set(self) -> None:
        """End the call within a step. It takes no lock: the garbage collector may call it."""
        self._is_set = True

    def is_set(self) -> bool:
        """Whether the call is to end."""
        return self._is_set or (self._outer is not None and self._ask(self._outer))

    def _ask(self, outer: threading.Event | Cancellation) -> bool:
        """Whether the caller's event is set; whatever it raises stays here.

        An engine's thread asks too, and serves other callers as well.
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


@dataclass(frozen=True)
class Sampling:
    """How to draw, for one request.

    Attributes:
        temperature: one value for each codebook (one for text); 0 is greedy.
        top_p, top_k, repetition_penalty: see ``RefineTextParams``.
        min_new, max_new: tokens or frames.
    """

    temperature: tuple[float, ...]
    top_p: float
    top_k: int
    repetition_penalty: float
    min_new: int
    max_new: int

    @classmethod
    def from_params(cls, params: RefineTextParams, num_codebooks: int) -> Sampling:
        """Take the fields that concern drawing; one temperature is repeated for all codebooks."""
        given = params.temperature
        values = np.ravel(given).tolist() * (num_codebooks if np.ndim(given) == 0 else 1)
        if len(values) != num_codebooks:
            raise ConfigError(
                f"temperature has {len(values)} values; this pass draws {num_codebooks}"
            )
        return cls(
            temperature=tuple(usable_temperature(value) for value in values),
            top_p=float(params.top_P),
            top_k=min(int(params.top_K), NO_TOP_K),
            repetition_penalty=usable_penalty(params.repetition_penalty),
            min_new=min(int(params.min_new_token), int(params.max_new_token), NO_TOP_K),
            max_new=min(int(params.max_new_token), NO_TOP_K),
        )

    @property
    def is_greedy(self) -> bool:
        """Whether no draw depends on the key."""
        return not any(self.temperature)


def usable_temperature(value: float) -> float:
    """A plain float that float32 can divide by; 0, which is greedy, for what is too small."""
    number = float(value)
    return min(number, _MOST) if number >= _LEAST_TEMPERATURE else 0.0


def usable_penalty(value: float) -> float:
    """A plain float that float32 holds; beyond these bounds nothing changes any more."""
    return min(max(float(value), 1 / _MOST), _MOST)


@dataclass(frozen=True)
class GenerationRequest:
    """One row of work. ``key.kind`` says whether it gives text ids or frames of codes."""

    prompt: Prompt
    sampling: Sampling
    key: DrawKey

    @property
    def kind(self) -> Pass:
        return self.key.kind


@dataclass(frozen=True)
class Delta:
    """What a request gained since its last delta.

    Attributes:
        row: index of the request in the call.
        ids: int64 on the CPU: [n, num_codebooks] frames, or [n, 1] text ids. The end is never
            among them.
        hiddens: [n, hidden], each the one that its frame was drawn from.
        finish: why the request ended with this delta, or ``None`` while it goes on.
    """

    row: int
    ids: Tensor
    hiddens: Tensor
    finish: FinishReason | None


class Generator(Protocol):
    """An engine."""

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        """Run ``requests`` and give what they gain, step by step.

        Every request ends with exactly one delta that has a finish reason; once ``cancelled`` is
        set, within a step, with ``FinishReason.ABORT``. Closing the iterator frees everything.
        """
        ...

    def close(self) -> None:
        """End what runs, and let go of threads and memory; may be called twice."""
        ...
