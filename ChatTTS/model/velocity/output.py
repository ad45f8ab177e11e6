"""What an engine gives: deltas while a request runs, and whole samples in the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..generation import FinishReason


@dataclass(frozen=True)
class CompletionDelta:
    """What a sample gained since its last delta.

    Attributes:
        sample: index among the samples of the request.
        ids: int64, frames [n, num_codebooks] or text ids [n, 1]. The end is never among them.
        hiddens: [n, hidden] on the CPU, each the one that its ids were drawn from.
        finish: why the sample ended with this delta, or ``None`` while it goes on.
        logprob: sum over all ids of the sample so far.
    """

    sample: int
    ids: NDArray[np.int64]
    hiddens: Tensor
    finish: FinishReason | None
    logprob: float


@dataclass(frozen=True)
class RequestOutput:
    """What a request gained in a step.

    Attributes:
        deltas: at most one for each sample.
        finished: whether this is the last of the request.
        error: what went wrong, where something did; the request is finished then.
    """

    request_id: str
    deltas: tuple[CompletionDelta, ...]
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
        mean_logprob: over its ids; minus infinity where there are none.
        text: what the ids say, where they are text ids.
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
        completions: one for each sample, by their index; only one with ``best``.
    """

    request_id: str
    completions: tuple[Completion, ...]


def join(deltas: Sequence[CompletionDelta]) -> CompletionDelta:
    """All deltas of a sample, in order and at least one, as one."""
    last = deltas[-1]
    if len(deltas) == 1:
        return last
    ids = np.concatenate([delta.ids for delta in deltas])
    hiddens = torch.cat([delta.hiddens for delta in deltas])
    return CompletionDelta(last.sample, ids, hiddens, last.finish, last.logprob)


def mean_logprob(whole: CompletionDelta) -> float:
    """The mean over the ids of a whole sample; minus infinity where there are none."""
    return whole.logprob / len(whole.ids) if len(whole.ids) else -math.inf


def nothing(
    sample: int, num_codebooks: int, no_hiddens: Tensor, finish: FinishReason, logprob: float
) -> CompletionDelta:
    """A delta that only says why the sample ended; ``no_hiddens`` is [0, hidden]."""
    ids = np.empty((0, num_codebooks), dtype=np.int64)
    return CompletionDelta(sample, ids, no_hiddens, finish, logprob)


def aborted(
    request_id: str, samples: Mapping[int, float], num_codebooks: int, no_hiddens: Tensor
) -> RequestOutput:
    """The last output of a request that was aborted.

    Args:
        samples: those that still ran, with their log-probabilities so far.
        num_codebooks: ids of a position.
        no_hiddens: [0, hidden].
    """
    deltas = (
        nothing(sample, num_codebooks, no_hiddens, FinishReason.ABORT, logprob)
        for sample, logprob in samples.items()
    )
    return RequestOutput(request_id, tuple(deltas), finished=True)
