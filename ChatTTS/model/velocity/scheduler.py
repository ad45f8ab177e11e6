"""Who is moved forward in a step, and what came of it.

Each sequence has computed so many of its positions; a step's budget of positions moves some of
them forward. A prompt is just a sequence with many positions left, so prompts are cut into chunks
and mixed with sequences that need one position for their next token.
"""

from __future__ import annotations

import logging
import math
import time
from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import attrgetter

from ...errors import ConfigError, GenerationError, TextError
from ..generation import FinishReason
from .block_manager import BlockSpaceManager
from .configs import CacheConfig, SchedulerConfig
from .plan import SequenceData, StepPlan, StepResult, Work
from .policy import WaitingQueue, rank_key
from .reports import Advance, SchedulerStats
from .sequence import Sequence, SequenceGroup, SequenceStatus

logger = logging.getLogger(__name__)

NOT_FINITE = (
    "the model gave logits that are not finite: its weights are damaged (check them with "
    "`chattts verify`) or too large for this dtype (load with dtype='float32')"
)


class Scheduler:
    """Plans the steps of all requests. Not for several threads at once.

    A plan is in flight from the moment it is made until its result is there. Usually one is; what
    the same sequences do next can be planned meanwhile.

    Args:
        config: budgets and policy. No more sequences run than a step has positions, so each of
            them can move forward in every step.
        cache: with ``num_blocks`` set.
        max_positions: what the model can read, prompt and generated ids together.
        clock: seconds; orders requests by their arrival.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        cache: CacheConfig,
        *,
        max_positions: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._max_positions = max_positions
        self._clock = clock
        self._blocks = BlockSpaceManager(cache)
        self._block_size = cache.block_size
        self._max_running = min(config.max_num_seqs, config.max_num_batched_tokens)
        self._groups: dict[str, SequenceGroup] = {}
        self._waiting = WaitingQueue()
        self._running: list[Sequence] = []  # by rank
        self._flights: deque[tuple[StepPlan, list[Sequence]]] = deque()
        self._ended: list[int] = []  # what the worker is still to be told
        self._arrivals = 0
        self._unfinished = 0
        self._num_swapped = 0
        self._recomputed = 0
        self._swapped = 0

    @property
    def has_unfinished(self) -> bool:
        """Whether any request has not ended yet."""
        return bool(self._groups)

    @property
    def stats(self) -> SchedulerStats:
        """Counts at this moment."""
        device = self._blocks.device
        return SchedulerStats(
            num_running=len(self._running),
            num_waiting=self._unfinished - len(self._running) - self._num_swapped,
            num_swapped=self._num_swapped,
            free_blocks=device.num_free,
            cached_blocks=device.num_cached,
            used_blocks=device.num_used,
            touched_blocks=device.num_touched,
            hit_positions=self._blocks.hit_positions,
            recomputed=self._recomputed,
            swapped=self._swapped,
            copies=self._blocks.copies,
        )

    # ------------------------------------------------------------ requests come and go

    def check(self, group: SequenceGroup) -> None:
        """Raise where a request cannot be taken.

        Raises:
            ConfigError: its id is that of an unfinished request, or its priority is no number.
            TextError: its prompt is empty, or too long for the model.
            GenerationError: its prompt is too long for the key-value cache.
        """
        length, capacity = group.prompt_length, self._blocks.capacity
        if group.request_id in self._groups:
            raise ConfigError(
                f"a request with the id {group.request_id!r} is not finished yet: give every "
                "request an id of its own"
            )
        if not math.isfinite(group.priority):
            raise ConfigError(f"priority must be a finite number, not {group.priority!r}")
        if length == 0:
            raise TextError("the prompt is empty: give it at least one token")
        if length >= self._max_positions:
            raise TextError(
                f"the prompt has {length} positions and the model {self._max_positions}: shorten "
                "the text or the sample prompt, or leave split_text on"
            )
        if length > capacity:
            raise GenerationError(
                f"the prompt has {length} positions and the key-value cache {capacity}: raise "
                "kv_memory, or shorten the text or the sample prompt"
            )

    def add(self, group: SequenceGroup) -> None:
        """Take a request; nothing has changed when this raises.

        Raises:
            ConfigError, TextError, GenerationError: as :meth:`check`.
        """
        self.check(group)
        length, capacity = group.prompt_length, self._blocks.capacity
        group.arrival = self._clock()
        # The id that is drawn from the last position that fits needs no place itself.
        group.limit = min(
            group.sampling.max_new, self._max_positions - length, capacity + 1 - length
        )
        key = rank_key(self._config, group)
        for seq in group.sequences:
            seq.rank = (key, self._arrivals, seq.sample)
        self._arrivals += 1
        self._unfinished += group.unfinished
        self._groups[group.request_id] = group
        self._waiting.push(group.sequences[0])

    def abort(self, request_id: str) -> list[Sequence]:
        """End a request, whatever its state; an id that is not known is ignored.

        Returns:
            The sequences that this ended. Those in a step in flight end with it, and ``update``
            reports them: each sequence is reported once.
        """
        group = self._groups.get(request_id)
        if group is None:
            return []
        group.followers.clear()
        ended = []
        for seq in group.sequences:
            if seq.flights:
                seq.aborted = True
            elif seq.status is not SequenceStatus.FINISHED:
                self._end(seq, FinishReason.ABORT)
                ended.append(seq)
        self._drop_ended()
        return ended

    # ------------------------------------------------------------ a step

    def schedule(self) -> StepPlan | None:
        """Plan a step, or ``None`` where there is nothing to do.

        Raises:
            RuntimeError: a plan is in flight.
        """
        if self._flights:
            raise RuntimeError("a step is in flight: schedule the next one after its update")
        counts: list[tuple[Sequence, int]] = []
        self._plan_single_positions(counts)
        # No more run than the budget has positions, so the first of the rest gets on as well.
        budget = self._config.max_num_batched_tokens - len(counts)
        for seq in self._running:
            left = len(seq) - seq.computed
            if left > 1 and budget:
                counts.append((seq, min(left, budget)))
                budget -= counts[-1][1]
        while budget and len(self._running) < self._max_running:
            newcomer = self._admit_next()
            if newcomer is None:
                break
            counts.append((newcomer, min(len(newcomer) - newcomer.computed, budget)))
            budget -= counts[-1][1]
        return self._make_plan(counts) if counts else None

    def schedule_ahead(self, most: int = 1) -> StepPlan | None:
        """Plan what the sequences of the last plan do when it is done, before it is.

        An end is seen when its step has returned: a sequence that ended moves on in vain until
        then, in blocks that are still its own, and ``update`` drops what it draws.

        Args:
            most: how many steps to plan at most.

        Returns:
            The plan, or ``None`` where it must wait for what is in flight: somebody else may move
            next, or blocks are short.
        """
        if not self._flights or (len(self._running) < self._max_running and self._may_admit()):
            return None
        sequences = self._flights[-1][1]
        if sequences != self._running or any(s.aborted or not s.drawing for s in sequences):
            return None
        steps = min(most, *(seq.group.limit - len(seq.ids) - seq.drawing for seq in sequences))
        if steps < 1 or not all(self._extend_ahead(seq, steps) for seq in sequences):
            return None
        return self._make_plan([(seq, 1) for seq in sequences], steps)

    def _extend_ahead(self, seq: Sequence, steps: int) -> bool:
        # The last id that these steps draw needs no place yet.
        return self._blocks.extend(seq, seq.drawing + steps - 1)

    def _plan_single_positions(self, counts: list[tuple[Sequence, int]]) -> None:
        """Plan all running sequences that need one position, the first in rank first.

        Where blocks are short, the last in rank are preempted, so the first always gets on. None
        of these is planned yet: those come before.
        """
        index = 0
        while index < len(self._running):
            seq = self._running[index]
            index += 1
            if len(seq) - seq.computed > 1:
                continue  # its blocks were given to it when it came in
            while not self._blocks.extend(seq):
                victim = self._running.pop()
                self._preempt(victim)
                if victim is seq:
                    return
            counts.append((seq, 1))

    def _admit_next(self) -> Sequence | None:
        """Let the first in the queue run, if blocks for all its positions can be had."""
        seq = self._waiting.peek()
        if seq is None or not self._may_admit():
            return None
        # Who runs needs another block some day: without a few to spare, newcomers would be sent
        # away at once.
        spare = len(self._running)
        if seq.status is SequenceStatus.SWAPPED:
            fits = self._blocks.swap_in(seq, spare)
        elif (donor := self._find_donor(seq)) is not None:
            fits = self._blocks.fork(donor, seq, spare)
        else:
            fits = self._blocks.allocate(seq, spare)
        if not fits:
            return None
        self._num_swapped -= seq.status is SequenceStatus.SWAPPED
        self._waiting.pop()
        seq.status = SequenceStatus.RUNNING
        insort(self._running, seq, key=attrgetter("rank"))
        return seq

    def _may_admit(self) -> bool:
        """Whether to try the first in the queue: as far as is known, there are blocks for it."""
        seq, spare = self._waiting.peek(), len(self._running)
        if seq is None:
            return False
        return not spare or self._blocks.device.available - spare >= max(1, seq.wanted)

    def _find_donor(self, seq: Sequence) -> Sequence | None:
        """A running sibling whose prompt a sequence that never ran can share."""
        donor = seq.group.donor
        if donor is None or seq.ids or donor.status is not SequenceStatus.RUNNING:
            return None
        return donor if donor.computed >= seq.group.prompt_length - 1 else None

    def _preempt(self, seq: Sequence) -> None:
        """Take the blocks from a sequence that runs, by whichever way costs less to undo."""
        recompute = seq.computed * self._config.recompute_cost
        swap = -(-seq.computed // self._block_size) * self._config.swap_cost
        if swap < recompute and self._blocks.swap_out(seq):
            seq.status = SequenceStatus.SWAPPED
            self._num_swapped += 1
            self._swapped += 1
        else:
            self._blocks.free(seq)
            seq.status = SequenceStatus.WAITING
            self._recomputed += 1
        self._waiting.push(seq)

    def _make_plan(self, counts: list[tuple[Sequence, int]], steps: int = 1) -> StepPlan:
        new: list[SequenceData] = []
        work: list[Work] = []
        for seq, count in counts:
            # What is drawn in flight is computed from its last id on.
            length = len(seq) + seq.drawing
            start = length - 1 if seq.drawing else seq.computed
            stop = start + count
            draws = stop == length
            table = tuple(seq.block_table[: -(-(stop + steps - 1) // self._block_size)])
            work.append(Work(seq.seq_id, start, count, table, draws))
            seq.flights += 1
            seq.drawing += steps * draws
            if not seq.known:
                seq.known = True
                new.append(seq.data)
        moves = self._blocks.take_moves()
        plan = StepPlan(tuple(self._ended), moves, tuple(new), tuple(work), steps)
        self._ended.clear()
        self._flights.append((plan, [seq for seq, _ in counts]))
        return plan

    # ------------------------------------------------------------ what came of it

    def update(self, plan: StepPlan, result: StepResult) -> list[Advance]:
        """Learn what the plan that is longest in flight gave.

        Returns:
            For each sequence one for every id that it drew, and for each that was aborted while in
            flight.

        Raises:
            RuntimeError: ``plan`` is not that plan.
            ValueError: the result has another number of rows than the plan has draws.
        """
        if not self._flights or plan is not self._flights[0][0]:
            raise RuntimeError("this plan is not in flight, or not the first one")
        draws = plan.steps * sum(work.draws for work in plan.work)
        if len(result.ids) != draws:
            raise ValueError(f"the step gave {len(result.ids)} rows, and its plan has {draws}")
        sequences = self._flights.popleft()[1]
        for seq in sequences:
            seq.flights -= 1
        rows = result.ids.tolist()
        logprobs = result.logprobs.tolist()
        finite = result.finite.tolist()
        advances = []
        row = 0
        for step in range(plan.steps):
            for work, seq in zip(plan.work, sequences, strict=True):
                computed = work.start + work.count + step
                seq.drawing -= work.draws
                if seq.status is SequenceStatus.FINISHED:
                    pass  # it moved on in vain
                elif seq.aborted:
                    advances.append(self._close(seq, FinishReason.ABORT))
                elif not work.draws:
                    self._blocks.commit(seq, computed)
                    self._open(seq)
                elif not finite[row]:
                    advances.append(self._close(seq, FinishReason.ABORT, error=NOT_FINITE))
                else:
                    self._blocks.commit(seq, computed)
                    self._open(seq)
                    advances.append(self._gain(seq, row, rows[row], logprobs[row]))
                row += work.draws
        if any(advance.finish for advance in advances):
            self._drop_ended()
        return advances

    def _gain(self, seq: Sequence, row: int, ids: list[int], logprob: float) -> Advance:
        """A sequence drew ``ids`` [num_codebooks], in row ``row``."""
        group = seq.group
        drawn = group.row(ids)
        if group.is_end(drawn):
            return self._close(seq, FinishReason.STOP)
        seq.ids.append(drawn)
        seq.logprob += logprob
        if len(seq.ids) < group.limit:
            return Advance(seq, row, None)
        if group.limit < min(group.sampling.max_new, self._max_positions - group.prompt_length):
            logger.warning(
                "request %r ended after %d of %d: it fills the whole key-value cache of %d "
                "positions; raise kv_memory",
                group.request_id,
                group.limit,
                group.sampling.max_new,
                self._blocks.capacity,
            )
        return self._close(seq, FinishReason.LENGTH, row)

    def _open(self, seq: Sequence) -> None:
        """Once a sample has computed the prompt, all but its last position, others may share it."""
        group = seq.group
        if group.sampling.n > 1 and seq.computed >= group.prompt_length - 1:
            group.donor = seq
            self._release_followers(group)

    def _release_followers(self, group: SequenceGroup) -> None:
        for follower in group.followers:
            self._waiting.push(follower)
        group.followers.clear()

    def _close(
        self,
        seq: Sequence,
        finish: FinishReason,
        row: int | None = None,
        error: str | None = None,
    ) -> Advance:
        self._end(seq, finish, error)
        return Advance(seq, row, finish, error)

    def _end(self, seq: Sequence, finish: FinishReason, error: str | None = None) -> None:
        """End a sequence; one that runs stays in the list of those until ``_drop_ended``."""
        if seq.status is SequenceStatus.SWAPPED:
            self._num_swapped -= 1
        self._waiting.discard(seq)
        self._blocks.free(seq, keep=seq.group.prompt_length, forget=error is not None)
        seq.status = SequenceStatus.FINISHED
        seq.finish = finish
        seq.error = error
        if seq.known:
            self._ended.append(seq.seq_id)
        self._unfinished -= 1
        group = seq.group
        group.unfinished -= 1
        self._release_followers(group)
        if not group.unfinished:
            group.donor = None
            del self._groups[group.request_id]

    def _drop_ended(self) -> None:
        self._running = [seq for seq in self._running if seq.status is SequenceStatus.RUNNING]
