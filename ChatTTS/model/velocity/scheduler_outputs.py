"""Results of the scheduler: the result of a plan for each sequence, and counts."""

from __future__ import annotations

from dataclasses import dataclass

from .sequence import Sequence


@dataclass(frozen=True, slots=True)
class Advance:
    """The effect of a plan on a sequence that drew or ended.

    Attributes:
        sequence: its state after the plan; ``sequence.finish`` tells whether it ended.
        rows: the rows of the step's result that hold its new ids and their hidden states. The
            id that ends a sequence is not kept, so it is not among them.
    """

    sequence: Sequence
    rows: list[int]


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """Counts of sequences, blocks and preemptions, as :class:`~.metrics.Metrics` names them."""

    prompt_positions: int
    cached_positions: int
    preempted_recompute: int
    preempted_swap: int
    copied_blocks: int
    running: int
    waiting: int
    swapped: int
    blocks: int
    used_blocks: int
    cached_blocks: int
    touched_blocks: int
