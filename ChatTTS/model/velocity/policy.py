"""Who comes first, and the queue that keeps to it."""

from __future__ import annotations

import heapq

from .configs import SchedulerConfig
from .sequence import Sequence, SequenceGroup


def rank_key(config: SchedulerConfig, group: SequenceGroup) -> float:
    """The first part of a rank; the lowest comes first, and equals go by their arrival.

    Ageing lowers a priority by one for every ``ageing`` seconds of waiting. It does so for all
    that wait alike, so their order never changes: ``priority - (now - arrival) / ageing`` orders
    the same at any ``now``, and the part with ``now`` can be left out.
    """
    if config.policy == "fcfs":
        return 0.0
    return group.priority + group.arrival / config.ageing


class WaitingQueue:
    """Sequences by their rank. Everything takes O(log n), spread over many calls."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, int, int], int, Sequence]] = []
        self._live: set[int] = set()

    def __len__(self) -> int:
        return len(self._live)

    def push(self, seq: Sequence) -> None:
        """Add a sequence that is not in the queue."""
        self._live.add(seq.seq_id)
        heapq.heappush(self._heap, (seq.rank, seq.seq_id, seq))

    def peek(self) -> Sequence | None:
        """The first one, which stays."""
        while self._heap:
            seq = self._heap[0][2]
            if seq.seq_id in self._live:
                return seq
            heapq.heappop(self._heap)
        return None

    def pop(self) -> Sequence:
        """Take out the first one.

        Raises:
            IndexError: the queue is empty.
        """
        seq = self.peek()
        if seq is None:
            raise IndexError("nobody waits")
        heapq.heappop(self._heap)
        self._live.remove(seq.seq_id)
        return seq

    def discard(self, seq: Sequence) -> None:
        """Take out a sequence that will never be pushed again, if it is there."""
        self._live.discard(seq.seq_id)
        # It stays in the heap until it comes up, or until half of the heap is such leftovers.
        if len(self._heap) > 2 * len(self._live):
            self._heap = [entry for entry in self._heap if entry[1] in self._live]
            heapq.heapify(self._heap)
