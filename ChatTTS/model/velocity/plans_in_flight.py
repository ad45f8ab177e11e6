"""The plans whose results are still to come, and the sequences that the worker knows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from .plan import BlockMove, SequenceData, StepPlan, Work
from .sequence import Sequence


class PlansInFlight:
    """Turns sequences to be moved into plans, and keeps those until their results are there.

    The worker is told of a sequence in its first plan, and to forget it in the first plan after its
    end.

    Args:
        block_size: positions of a block.
        stale: sequences that the worker knows of an earlier scheduler, and is to forget.

    Attributes:
        plans: those in flight, each with its sequences, the oldest first.
        known: the ids of the sequences that the worker knows.
        prompt_positions: positions of prompts in the plans that are over.
    """

    def __init__(self, block_size: int, stale: Iterable[int] = ()) -> None:
        self._block_size = block_size
        self.plans: deque[tuple[StepPlan, list[Sequence]]] = deque()
        self.known = set(stale)
        self._ended = list(stale)  # sequences that the next plan tells the worker to forget
        self.prompt_positions = 0

    def add(
        self,
        counts: list[tuple[Sequence, int]],
        moves: tuple[BlockMove, ...],
        steps: int = 1,
    ) -> StepPlan:
        """Return a new plan, which is in flight from now on.

        Args:
            counts: the sequences to move, each with its number of positions.
            moves: block moves that come before the work.
            steps: how often each sequence is moved.
        """
        new: list[SequenceData] = []
        work: list[Work] = []
        sequences: list[Sequence] = []
        for seq, count in counts:
            # Of ids that plans in flight draw, only the last one still has to be computed.
            length = len(seq) + seq.drawing
            start = length - 1 if seq.drawing else seq.computed
            stop = start + count
            draws = stop == length
            table = tuple(seq.block_table[: -(-(stop + steps - 1) // self._block_size)])
            work.append(Work(seq.seq_id, start, count, table, draws))
            sequences.append(seq)
            seq.plans_in_flight += 1
            seq.drawing += steps * draws
            if seq.seq_id not in self.known:
                self.known.add(seq.seq_id)
                new.append(seq.data)
        plan = StepPlan(tuple(self._ended), moves, tuple(new), tuple(work), steps)
        self._ended.clear()
        self.plans.append((plan, sequences))
        return plan

    def pop(self, plan: StepPlan) -> list[tuple[Work, Sequence]]:
        """Take the oldest plan out; return its work, each with its sequence.

        Raises:
            RuntimeError: ``plan`` is not that one.
        """
        if not self.plans or plan is not self.plans[0][0]:
            raise RuntimeError("this plan is not in flight, or not the first one")
        _, sequences = self.plans.popleft()
        completed = list(zip(plan.work, sequences, strict=True))
        for work, seq in completed:
            seq.plans_in_flight -= 1
            seq.drawing -= plan.steps * work.draws
            of_prompt = seq.group.prompt_length - work.start
            self.prompt_positions += max(0, min(work.count, of_prompt))
        self.known.difference_update(plan.ended)
        return completed

    def forget(self, seq: Sequence) -> None:
        """Note that a sequence ended, so that the worker forgets it if it knows it."""
        if seq.seq_id in self.known:
            self._ended.append(seq.seq_id)
