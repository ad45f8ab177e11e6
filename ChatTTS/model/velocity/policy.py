"""The order in which sequences are scheduled, and the queue of those that wait."""

from __future__ import annotations

import heapq

from .configs import SchedulerConfig
from .sequence import Sequence, SequenceGroup


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
