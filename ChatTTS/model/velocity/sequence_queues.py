"""The queues of sequences: which ones run and hold blocks, and which ones wait for them.

A waiting sequence starts when there are blocks for all its positions. A running one that has to
give up its blocks is swapped out or computed again later, and waits meanwhile.
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter

from .block_manager import BlockSpaceManager
from .configs import SchedulerConfig
from .policy import WaitingQueue
from .sequence import Sequence, SequenceStatus


class SequenceQueues:
    """The waiting, running and swapped sequences, in the order of the policy.

    Args:
        config: the number of sequences that may run, and the costs of preemption.
        blocks: gives the sequences their blocks.
        block_size: positions of a block.

    Attributes:
        running: the running sequences, in order.
        waiting: those that wait, swapped ones included.
        num_swapped: how many of these are swapped out.
        preempted_recompute, preempted_swap: preemptions so far, by how the sequence goes on.
    """

    def __init__(self, config: SchedulerConfig, blocks: BlockSpaceManager, block_size: int) -> None:
        self._config, self._blocks, self._block_size = config, blocks, block_size
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

    def start_next(self) -> Sequence | None:
        """Start the first waiting sequence, if it may run and has blocks for all its positions.

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
        """Take the blocks from the last running sequence, choose its way back, and return it.

        It is swapped out or computed again later, whichever is estimated to take less time.
        """
        seq = self.running.pop()
        recompute = seq.computed * self._config.recompute_cost
        swap = -(-seq.computed // self._block_size) * self._config.swap_cost
        if swap < recompute and self._blocks.swap_out(seq):
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
