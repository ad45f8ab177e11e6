"""What the scheduler tells of its work."""

from __future__ import annotations

from dataclasses import dataclass

from ..generation import FinishReason
from .sequence import Sequence


@dataclass(frozen=True, slots=True)
class Advance:
    """What a step did to a sequence.

    Attributes:
        sequence: its books, as they are after the step.
        row: where its new ids and their hidden state lie in the step's result, or ``None`` if it
            kept nothing (the end is not kept).
        finish: why it ended, or ``None`` while it goes on.
        error: what went wrong, if it ended with an error (``finish`` is ``ABORT`` then).
    """

    sequence: Sequence
    row: int | None
    finish: FinishReason | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """Counts at this moment.

    Attributes:
        num_running, num_waiting, num_swapped: sequences; none counts twice.
        free_blocks, cached_blocks, used_blocks: of the device's pool; cached ones are held by
            nobody and can be evicted.
        touched_blocks: that were ever held.
        hit_positions: positions that the prefix cache saved, so far.
        recomputed, swapped: preemptions of each kind, so far.
        copies: blocks copied because two sequences part within one, so far.
    """

    num_running: int
    num_waiting: int
    num_swapped: int
    free_blocks: int
    cached_blocks: int
    used_blocks: int
    touched_blocks: int
    hit_positions: int
    recomputed: int
    swapped: int
    copies: int
