"""The messages between the scheduler and the worker: plain data, and hidden states in results.

A plan names sequences by their ids, and says how many positions of each to compute. It knows
neither the rows of a batch nor phases such as prefill and decode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..generation import GenerationRequest

if TYPE_CHECKING:
    from torch import Tensor


class MoveKind(Enum):
    """From which pool to which pool a block is copied."""

    COPY = "copy"  # device block to device block
    OUT = "out"  # device block to host block
    IN = "in"  # host block to device block


@dataclass(frozen=True)
class BlockMove:
    """Copy a whole block, with all layers, from block ``source`` to block ``target``."""

    kind: MoveKind
    source: int
    target: int


@dataclass(frozen=True)
class SequenceData:
    """A sequence as a worker needs to know it. It is sent once, with the first work.

    Attributes:
        request: with the key of the sequence's draws.
    """

    seq_id: int
    request: GenerationRequest


@dataclass(frozen=True)
class Work:
    """Compute ``count`` positions of a sequence, from ``start`` on.

    Attributes:
        block_table: the physical block of every logical block, for all positions that the plan
            computes and those before.
        draws: whether the last of these positions is the last one of the sequence, so that its
            hidden state draws the next id.
    """

    seq_id: int
    start: int
    count: int
    block_table: tuple[int, ...]
    draws: bool


@dataclass(frozen=True)
class StepPlan:
    """One step, or several steps of the same sequences.

    Attributes:
        ended: sequences that the worker can forget, before it does anything else.
        moves: block moves, to be done in order, before the work.
        new: sequences that have their first work in this plan.
        work: at most one entry for each sequence.
        steps: the number of steps. Each step after the first moves every sequence by one position,
            with the id that it drew in the step before. More than one only if all work draws.
    """

    ended: tuple[int, ...]
    moves: tuple[BlockMove, ...]
    new: tuple[SequenceData, ...]
    work: tuple[Work, ...]
    steps: int = 1


@dataclass(frozen=True)
class StepResult:
    """The draws: a row for each work with ``draws``, in the plan's order, step after step.

    Attributes:
        ids: int64 [n, num_codebooks]; a text id is in the first column.
        hiddens: float [n, hidden] on the CPU, the hidden states that the ids were drawn from.
        logprobs: float32 [n], the log-probabilities of the ids under the model's logits
            (before temperature and other settings; of a frame the mean over its codebooks).
        finite: bool [n]; where it is false, the logits were not finite and the ids are invalid.
        attention: float32 [heads, text ids] by the row of ``ids``, for the rows of sequences with
            ``alignment_heads``: the attention of the positions that drew them.
    """

    ids: NDArray[np.int64]
    hiddens: Tensor
    logprobs: NDArray[np.float32]
    finite: NDArray[np.bool_]
    attention: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)


class StepMemoryError(RuntimeError):
    """A device has no memory for a plan. Nothing of the plan counts, and later ones may fit.

    The moves of the plan are done, and its sequences have to end.
    """


# Waits for the result of a plan that workers were given. It is called once, in the order of the
# plans. It raises ``StepMemoryError`` if the device has no memory for the plan; later ones may fit.
Pending: TypeAlias = Callable[[], StepResult]
