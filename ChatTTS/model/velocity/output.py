"""Results of an engine: the gains of each step while a request runs, and whole samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..generation import Delta, FinishReason


@dataclass(frozen=True)
class RequestOutput:
    """The gain of a request in a step.

    Attributes:
        deltas: at most one for each sample; ``Delta.index`` is the index of the sample.
        finished: whether this is the last output of the request.
        error: what went wrong, or ``None``. A request with an error is finished.
    """

    request_id: str
    deltas: tuple[Delta, ...]
    finished: bool
    error: str | None = None


@dataclass(frozen=True)
class Completion:
    """A whole sample.

    Attributes:
        sample: index among the samples of the request.
        ids: int64, frames [n, num_codebooks] or text ids [n, 1].
        hiddens: [n, hidden] on the CPU.
        finish: why it ended.
        mean_logprob: mean log-probability of its ids; minus infinity where there are none.
        text: the decoded text of a refined answer; ``None`` for frames.
    """

    sample: int
    ids: NDArray[np.int64]
    hiddens: Tensor
    finish: FinishReason
    mean_logprob: float
    text: str | None = None


@dataclass(frozen=True)
class GenerationResult:
    """A whole request.

    Attributes:
        completions: one for each sample, in order of their indices; only one with ``best``.
    """

    request_id: str
    completions: tuple[Completion, ...]


def mean_logprob(whole: Delta) -> float:
    """Return the mean over the ids of a whole sample; minus infinity where there are none."""
    return whole.logprob / len(whole.ids) if len(whole.ids) else -math.inf
