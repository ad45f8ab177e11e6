"""What the scheduler returns: the result of a plan for each sequence, and counts."""

from __future__ import annotations

from dataclasses import dataclass

from .sequence import Sequence


@dataclass(frozen=True, slots=True)
class Advance:
    """What a plan did to a sequence that drew or ended.

    Attributes:
        sequence: its state after the plan; ``sequence.finish`` tells whether it ended.
        rows: the rows of the step's result that hold its new ids and their hidden states. The
            id that ends a sequence is not kept, so it is not among them.
    """

    sequence: Sequence
    rows: list[int]


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """Counts of sequences, blocks and preemptions.

    Attributes:
        num_running, num_waiting, num_swapped: sequences, each counted once.
        free_blocks, cached_blocks, used_blocks: of the device's pool. No sequence holds a cached
            block, so it can be evicted.
        touched_blocks: blocks that have been used at least once.
        hit_positions: positions that the prefix cache has saved so far.
        recomputed, swapped: preemptions of each kind so far.
        copies: blocks copied so far because two sequences diverge within one.
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
