"""The queues of sequences: which ones run and hold blocks, and which ones wait for them.

A waiting sequence starts when there are blocks for all its positions. A running one that has to
give up its blocks is swapped out or computed again later, and waits meanwhile.
"""

from __future__ import annotations

import heapq
from bisect import insort
from operator import attrgetter

from .block_manager import BlockSpaceManager
from .configs import SchedulerConfig
from .sequence import Sequence, SequenceGroup, SequenceStatus


def order_key(config: SchedulerConfig, group: SequenceGroup) -> float:
    """Return the first part of a sequence's place in the order: the lowest comes first.

    Ties go by order of arrival.

    Ageing lowers a priority by one for every ``ageing`` seconds of waiting. It does so for all
    waiting requests, so their order does not change with time: ``priority - (now - arrival) /
    ageing`` gives one order for every ``now``, and the term with ``now`` can be left out.
    """
    if config.policy == "fcfs":
        return 0.0
    return group.request.priority + group.arrival / config.ageing


class WaitingQueue:
    """Waiting sequences, in order. Every operation takes amortised O(log n) time."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, int, int], int, Sequence]] = []
        self._live: set[int] = set()

    def __len__(self) -> int:
        return len(self._live)

    def push(self, seq: Sequence) -> None:
        """Add a sequence that is not in the queue."""
        self._live.add(seq.seq_id)
        heapq.heappush(self._heap, (seq.order, seq.seq_id, seq))

    def peek(self) -> Sequence | None:
        """Return the first sequence without removing it, or ``None`` if the queue is empty."""
        while self._heap:
            seq = self._heap[0][2]
            if seq.seq_id in self._live:
                return seq
            heapq.heappop(self._heap)
        return None

    def pop(self) -> Sequence:
        """Remove the first sequence and return it.

        Raises:
            IndexError: the queue is empty.
        """
        seq = self.peek()
        if seq is None:
            raise IndexError("the queue is empty")
        heapq.heappop(self._heap)
        self._live.remove(seq.seq_id)
        return seq

    def discard(self, seq: Sequence) -> None:
        """Remove a sequence, if it is there. It must never be pushed again."""
        self._live.discard(seq.seq_id)
        # It stays in the heap until it comes first, or until half of the heap is removed ones.
        if len(self._heap) > 2 * len(self._live):
            self._heap = [entry for entry in self._heap if entry[1] in self._live]
            heapq.heapify(self._heap)


class SequenceQueues:
    """The waiting, running and swapped sequences, in the order of the policy.

    Args:
        config: the number of sequences that may run.
        blocks: gives the sequences their blocks.

    Attributes:
        running: the running sequences, in order.
        waiting: those that wait, swapped ones included.
        num_swapped: how many of these are swapped out.
        preempted_recompute, preempted_swap: preemptions so far, by how the sequence goes on.
    """

    def __init__(self, config: SchedulerConfig, blocks: BlockSpaceManager) -> None:
        self._blocks = blocks
        self._max_running = min(config.max_num_seqs, config.max_num_batched_tokens)
        self.running: list[Sequence] = []
        self.waiting = WaitingQueue()
        self.num_swapped = 0
        self.preempted_recompute = 0
        self.preempted_swap = 0

    def may_start(self) -> bool:
        """Return whether the first waiting sequence may run now, and may find enough blocks.

        This is a quick test: ``wanted`` is how many it needed when it was last tried.
        """
        seq, spare = self.waiting.peek(), len(self.running)
        if seq is None or spare >= self._max_running:
            return False
        return not spare or self._blocks.device.available - spare >= max(1, seq.wanted)

    def start_or_resume_next(self) -> Sequence | None:
        """Start or resume the first waiting sequence, if it may run and all its positions fit.

        Returns:
            It; ``None`` if it did not start.
        """
        seq = self.waiting.peek()
        if seq is None or not self.may_start():
            return None
        # Each running sequence will need another block. Without spare ones for them, the new
        # sequence would soon be preempted.
        spare = len(self.running)
        if seq.status is SequenceStatus.SWAPPED:
            fits = self._blocks.swap_in(seq, spare)
        elif (donor := _find_donor(seq)) is not None:
            fits = self._blocks.fork(donor, seq, spare)
        else:
            fits = self._blocks.allocate(seq, spare)
        if not fits:
            return None
        self.num_swapped -= seq.status is SequenceStatus.SWAPPED
        self.waiting.pop()
        seq.status = SequenceStatus.RUNNING
        insort(self.running, seq, key=attrgetter("order"))
        return seq

    def preempt_last(self) -> Sequence:
        """Take the blocks from the last running sequence, and return it.

        It is swapped out where the host's pool has room, and computed again later where not.
        """
        seq = self.running.pop()
        if self._blocks.swap_out(seq):
            seq.status = SequenceStatus.SWAPPED
            self.num_swapped += 1
            self.preempted_swap += 1
        else:
            self._blocks.free(seq)
            seq.status = SequenceStatus.WAITING
            self.preempted_recompute += 1
        self.waiting.push(seq)
        return seq

    def remove(self, seq: Sequence) -> None:
        """Take a sequence that ends out of the waiting ones; :meth:`drop_ended` does the rest."""
        self.num_swapped -= seq.status is SequenceStatus.SWAPPED
        self.waiting.discard(seq)

    def drop_ended(self) -> None:
        """Take the sequences that ended out of the running ones."""
        self.running = [seq for seq in self.running if seq.status is SequenceStatus.RUNNING]


def uncomputed_at_start(seq: Sequence) -> int:
    """Return the most positions that a waiting sequence has to compute once it starts."""
    if seq.status is SequenceStatus.SWAPPED:
        return len(seq) - seq.computed
    return 1 if _find_donor(seq) is not None else len(seq)


def _find_donor(seq: Sequence) -> Sequence | None:
    """Return a running sample of the group whose prompt blocks a new sample can share."""
    donor = seq.group.donor
    if donor is None or seq.ids or donor.status is not SequenceStatus.RUNNING:
        return None
    return donor if donor.computed >= seq.group.prompt_length - 1 else None
