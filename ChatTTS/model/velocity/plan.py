"""What the scheduler and the worker say to each other: plain data, and no torch.

A plan never speaks of rows or of phases. It names sequences by their ids and says how far each is
to be moved forward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..draws import DrawKey
from ..generation import Sampling
from ..tokenizer import Prompt

if TYPE_CHECKING:
    from torch import Tensor


class MoveKind(Enum):
    """What a block move connects."""

    COPY = "copy"  # device block to device block
    OUT = "out"  # device block to host block
    IN = "in"  # host block to device block


@dataclass(frozen=True)
class BlockMove:
    """The contents of a whole block, all layers, from ``source`` to ``target``."""

    kind: MoveKind
    source: int
    target: int


@dataclass(frozen=True)
class SequenceData:
    """What a worker must know of a sequence; sent once, with its first work."""

    seq_id: int
    prompt: Prompt
    sampling: Sampling
    key: DrawKey


@dataclass(frozen=True)
class Work:
    """Compute ``count`` positions of a sequence, from ``start`` on.

    Attributes:
        block_table: the physical block of every logical one, for all positions before
            ``start + count``.
        draws: whether the last of these positions is the sequence's last, so that its hidden
            state draws the next id.
    """

    seq_id: int
    start: int
    count: int
    block_table: tuple[int, ...]
    draws: bool


@dataclass(frozen=True)
class StepPlan:
    """One step.

    Attributes:
        ended: sequences that the worker can forget, before anything else.
        moves: to be carried out one after another, before the work.
        new: sequences that have their first work in this step.
        work: at most one entry for each sequence.
        steps: how often; each time after the first moves every sequence by one position, with
            what it drew the time before. More than one only where all work draws.
    """

    ended: tuple[int, ...]
    moves: tuple[BlockMove, ...]
    new: tuple[SequenceData, ...]
    work: tuple[Work, ...]
    steps: int = 1

    @property
    def num_positions(self) -> int:
        """Positions that the step computes."""
        return sum(work.count for work in self.work) + (self.steps - 1) * len(self.work)


@dataclass(frozen=True)
class StepResult:
    """What was drawn, for the plan's work with ``draws``, in the plan's order, step after step.

    Attributes:
        ids: int64 [n, num_codebooks]; a text id stands in the first column.
        hiddens: float [n, hidden] on the CPU, each the one that its ids were drawn from.
        logprobs: float32 [n], log-probability of the ids under the plain model (before
            temperature and the rest; the mean over the codebooks of a frame).
        finite: bool [n]; where it is false the model gave no numbers to draw from, and the ids
            mean nothing.
    """

    ids: NDArray[np.int64]
    hiddens: Tensor
    logprobs: NDArray[np.float32]
    finite: NDArray[np.bool_]


# Waits for the result of a step.
Pending = Callable[[], StepResult]
