"""Choose which sequences a step moves forward, and apply its result to them.

Each sequence has computed some of its positions, and the step's budget of positions moves some
sequences forward. A prompt is a sequence with many positions left. So prompts are cut into chunks
(chunked prefill), and share steps with sequences that need one position for their next token
(decode).
"""

from __future__ import annotations

import logging
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter

from ...errors import ConfigError
from ..generation import NOT_FINITE, FinishReason
from .block_manager import BlockSpaceManager
from .configs import CacheConfig, SchedulerConfig
from .plan import SequenceData, StepPlan, StepResult, Work
from .policy import WaitingQueue, order_key
from .scheduler_outputs import Advance, SchedulerStats
from .sequence import Sequence, SequenceGroup, SequenceStatus

logger = logging.getLogger(__name__)

# From this number of running sequences on, a plan of several steps follows each plan in which
# others start. Otherwise the host would plan each step by itself, for longer than the device
# computes it.
_MANY = 128


class Scheduler:
    """Plans the steps of all requests. It is not thread-safe.

    A plan is in flight from when it is made until :meth:`update` is given its result. Usually
    one plan is; :meth:`schedule_ahead` makes another one meanwhile.

    Args:
        config: budgets and policy. At most as many sequences run as a step has positions, so each
            of them can move forward in every step.
        cache: the cache's config, with ``num_blocks`` set.
        max_positions: the most positions that the model can read, of prompt and answer together.
        clock: returns seconds; orders requests by their arrival.
        stale: sequences of an earlier scheduler, for the worker to forget.

    Attributes:
        known: the ids of the sequences that the worker knows.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        cache: CacheConfig,
        *,
        max_positions: int,
        clock: Callable[[], float] = time.monotonic,
        stale: Iterable[int] = (),
    ) -> None:
        self._config = config
        self._max_positions = max_positions
        self._clock = clock
        self._blocks = BlockSpaceManager(cache)
        self._block_size = cache.block_size
        self._capacity = cache.capacity
        self._max_running = min(config.max_num_seqs, config.max_num_batched_tokens)
        self._groups: dict[str, SequenceGroup] = {}
        self._waiting = WaitingQueue()
        self._running: list[Sequence] = []  # in order
        self._in_flight: deque[tuple[StepPlan, list[Sequence]]] = deque()
        self.known = set(stale)
        self._ended = list(stale)  # sequences that the next plan tells the worker to forget
        self._arrivals = 0
        self._unfinished = 0
        self._num_swapped = 0
        self._recomputed = 0
        self._swapped = 0
        self._prompt_positions = 0

    @property
    def stats(self) -> SchedulerStats:
        """Return the present counts."""
        device = self._blocks.device
        return SchedulerStats(
            prompt_positions=self._prompt_positions,
            cached_positions=self._blocks.hit_positions,
            preempted_recompute=self._recomputed,
            preempted_swap=self._swapped,
            copied_blocks=self._blocks.copies,
            running=len(self._running),
            waiting=self._unfinished - len(self._running) - self._num_swapped,
            swapped=self._num_swapped,
            blocks=device.size,
            used_blocks=device.num_used,
            cached_blocks=device.num_cached,
            touched_blocks=device.num_touched,
        )

    # ------------------------------------------------------------ adding and aborting requests

    def check(self, group: SequenceGroup) -> None:
        """Check that :meth:`add` would accept a request.

        Raises:
            ConfigError: its id is that of an unfinished request.
        """
        if group.request_id in self._groups:
            raise ConfigError(
                f"a request with the id {group.request_id!r} is not finished yet: give every "
                "request an id of its own"
            )

    def add(self, group: SequenceGroup) -> None:
        """Add a request whose prompt fits the model and the cache (see ``checked_request``).

        Raises:
            ConfigError: its id is that of an unfinished request. Nothing has changed then.
        """
        self.check(group)
        length, most = group.prompt_length, group.request.sampling.max_new
        group.arrival = self._clock()
        # The id drawn from the last position that fits needs no place in the cache itself.
        group.limit = min(most, self._max_positions - length, self._capacity + 1 - length)
        key = order_key(self._config, group)
        for seq in group.sequences:
            seq.order = (key, self._arrivals, seq.sample)
        self._arrivals += 1
        self._unfinished += group.unfinished
        self._groups[group.request_id] = group
        self._waiting.push(group.sequences[0])

    def abort(self, request_id: str) -> list[Sequence]:
        """End a request in any state; an unknown id is ignored.

        Returns:
            The sequences that this ended. A sequence that a plan in flight moves ends later, when
            :meth:`update` returns it. So each sequence is returned once.
        """
        group = self._groups.get(request_id)
        if group is None:
            return []
        group.followers.clear()
        ended = []
        for seq in group.sequences:
            if seq.plans_in_flight:
                seq.aborted = True
            elif seq.status is not SequenceStatus.FINISHED:
                self._end(seq, FinishReason.ABORT)
                ended.append(seq)
        self._drop_ended()
        return ended

    # ------------------------------------------------------------ a step

    def schedule(self, plans: int = 1) -> StepPlan | None:
        """Plan a step; return ``None`` if there is nothing to do.

        Args:
            plans: how many plans may be in flight, of different sequences: as many as a pipeline
                has stages. Each moves about an equal part of the running sequences.

        Raises:
            RuntimeError: this number of plans is in flight already.
        """
        if len(self._in_flight) >= plans:
            raise RuntimeError("a step is in flight: schedule the next one after its update")
        counts: list[tuple[Sequence, int]] = []
        self._plan_single_positions(counts, -(-len(self._running) // plans))
        # At most as many sequences run as the budget has positions, so a position is left for the
        # first of the others.
        budget = self._config.max_num_batched_tokens - len(counts)
        for seq in self._running:
            left = len(seq) - seq.computed
            if left > 1 and budget and not seq.plans_in_flight:
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
        """Plan the steps after the last plan in flight, before its result is known.

        The scheduler sees that a sequence ended only with the result. Until then the sequence is
        computed in vain, in blocks that are still its own, and ``update`` drops what it draws.

        Waiting sequences start in such a plan if all their positions fit into it. A sequence whose
        last id is in flight is left out.

        Args:
            most: the most steps to plan.

        Returns:
            The plan; ``None`` if the results in flight are needed first: a prompt goes on in the
            next step, a waiting sequence needs other sequences' blocks or more positions than a
            step has, or blocks are short.
        """
        if not self._in_flight:
            return None
        moving: list[Sequence] = []
        for seq in self._running:
            if not seq.plans_in_flight or not (seq.drawing or seq.aborted):
                return None
            if not seq.aborted and len(seq.ids) + seq.drawing < seq.group.limit:
                moving.append(seq)
        rests = len(moving) >= _MANY and bool(self._in_flight[-1][0].new)
        admits = not rests and len(self._running) < self._max_running and self._may_admit()
        if admits and not self._may_start_ahead(len(moving)):
            return None
        lefts = (seq.group.limit - len(seq.ids) - seq.drawing for seq in moving)
        steps = 1 if admits else min((most, *lefts))
        # The last id that these steps draw needs no place in the cache yet.
        if not all(self._blocks.extend(seq, seq.drawing + steps - 1) for seq in moving):
            return None
        counts = [(seq, 1) for seq in moving]
        while (
            admits
            and len(self._running) < self._max_running
            and self._may_start_ahead(sum(count for _, count in counts))
            and (newcomer := self._admit_next()) is not None
        ):
            counts.append((newcomer, len(newcomer) - newcomer.computed))
        return self._make_plan(counts, steps) if counts else None

    def _may_start_ahead(self, planned: int) -> bool:
        """Return whether the first waiting sequence may start while results are in flight.

        Args:
            planned: positions of the plan without it.
        """
        seq = self._waiting.peek()
        if seq is None:
            return False
        is_computed = seq.status is SequenceStatus.SWAPPED or self._find_donor(seq) is not None
        count = 1 if is_computed else len(seq)
        return planned + count <= self._config.max_num_batched_tokens

    def _plan_single_positions(self, counts: list[tuple[Sequence, int]], most: int) -> None:
        """Plan running sequences that need one position, the first ones in order.

        If blocks are short, the last sequences in order are preempted, so the first one always
        moves. The preempted ones are not in ``counts`` yet, since they come later. While a
        plan is in flight, a sequence waits for its result instead.
        """
        index = 0
        while index < len(self._running) and len(counts) < most:
            seq = self._running[index]
            index += 1
            if seq.plans_in_flight or len(seq) - seq.computed > 1:
                continue  # a prompt got the blocks when it was admitted
            if self._in_flight and not self._blocks.extend(seq):
                continue
            while not self._blocks.extend(seq):
                victim = self._running.pop()
                self._preempt(victim)
                if victim is seq:
                    return
            counts.append((seq, 1))

    def _admit_next(self) -> Sequence | None:
        """Start the first waiting sequence, if there are blocks for all its positions."""
        seq = self._waiting.peek()
        if seq is None or not self._may_admit():
            return None
        # Each running sequence will need another block. Without spare ones for them, the new
        # sequence would soon be preempted.
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
        insort(self._running, seq, key=attrgetter("order"))
        return seq

    def _may_admit(self) -> bool:
        """Return whether the first waiting sequence may find enough blocks.

        This is a quick test: ``wanted`` is how many it needed when it was last tried.
        """
        seq, spare = self._waiting.peek(), len(self._running)
        if seq is None:
            return False
        return not spare or self._blocks.device.available - spare >= max(1, seq.wanted)

    def _find_donor(self, seq: Sequence) -> Sequence | None:
        """Return a running sample of the group whose prompt blocks a new sample can share."""
        donor = seq.group.donor
        if donor is None or seq.ids or donor.status is not SequenceStatus.RUNNING:
            return None
        return donor if donor.computed >= seq.group.prompt_length - 1 else None

    def _preempt(self, seq: Sequence) -> None:
        """Take the blocks from a running sequence, and choose how it gets them back.

        It is swapped out or computed again later, whichever is estimated to take less time.
        """
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
        moves = self._blocks.take_moves()
        plan = StepPlan(tuple(self._ended), moves, tuple(new), tuple(work), steps)
        self._ended.clear()
        self._in_flight.append((plan, sequences))
        return plan

    # ------------------------------------------------------------ the result of a step

    def update(self, plan: StepPlan, result: StepResult) -> list[Advance]:
        """Apply the result of the oldest plan in flight.

        Returns:
            One ``Advance`` for each sequence that drew or ended.

        Raises:
            RuntimeError: ``plan`` is not that plan.
            ValueError: the result does not have one row for each draw of the plan.
        """
        self._check_oldest(plan)
        draws = 0
        for work in plan.work:
            draws += plan.steps * work.draws
        if len(result.ids) != draws:
            raise ValueError(f"the step gave {len(result.ids)} rows, and its plan has {draws}")
        sequences = self._pop()
        ids = result.ids.tolist()
        logprobs = result.logprobs.tolist()
        finite = result.finite.tolist()
        kept: dict[Sequence, list[int]] = {}  # the rows that each sequence keeps
        first, of_a_step = 0, draws // plan.steps
        for work, seq in zip(plan.work, sequences, strict=True):
            rows = range(first, draws, of_a_step) if work.draws else range(0)
            first += work.draws
            seq.drawing -= len(rows)
            if seq.status is SequenceStatus.FINISHED:
                continue  # it was computed in vain, see schedule_ahead
            if seq.aborted:
                kept[seq] = []
                self._end(seq, FinishReason.ABORT)
            elif not work.draws:
                self._commit(seq, work.start + work.count)
            else:
                kept[seq] = own = []
                for computed, row in enumerate(rows, work.start + work.count):
                    if not finite[row]:
                        self._end(seq, FinishReason.ABORT, NOT_FINITE)
                        break
                    self._commit(seq, computed)
                    if self._append(seq, ids[row], logprobs[row]):
                        own.append(row)
                    if seq.finish is not None:
                        break
        advances, has_ended = [], False
        for seq, own in kept.items():
            advances.append(Advance(seq, own))
            has_ended |= seq.finish is not None
        if has_ended:
            self._drop_ended()
        return advances

    def give_up(self, plan: StepPlan, error: str) -> list[Advance]:
        """End the sequences of the oldest plan in flight with an error: it gives no result.

        Returns:
            One ``Advance`` without rows for each sequence that this ended.

        Raises:
            RuntimeError: ``plan`` is not that plan.
        """
        self._check_oldest(plan)
        sequences = self._pop()
        ended = []
        for work, seq in zip(plan.work, sequences, strict=True):
            seq.drawing -= plan.steps * work.draws
            if seq.status is not SequenceStatus.FINISHED:
                self._end(seq, FinishReason.ABORT, None if seq.aborted else error)
                ended.append(Advance(seq, []))
        self._drop_ended()
        return ended

    def _check_oldest(self, plan: StepPlan) -> None:
        if not self._in_flight or plan is not self._in_flight[0][0]:
            raise RuntimeError("this plan is not in flight, or not the first one")

    def _pop(self) -> list[Sequence]:
        """Take the oldest plan out of the plans in flight; return its sequences."""
        plan, sequences = self._in_flight.popleft()
        for work, seq in zip(plan.work, sequences, strict=True):
            seq.plans_in_flight -= 1
            of_prompt = seq.group.prompt_length - work.start
            self._prompt_positions += max(0, min(work.count, of_prompt))
        self.known.difference_update(plan.ended)
        return sequences

    def _append(self, seq: Sequence, ids: list[int], logprob: float) -> bool:
        """Append drawn ``ids`` [num_codebooks], and end the sequence if they are its last.

        Returns:
            Whether the sequence keeps them; it does not keep the end.
        """
        group = seq.group
        drawn = group.drawn(ids)
        if group.is_end(drawn):
            self._end(seq, FinishReason.STOP)
            return False
        seq.ids.append(drawn)
        seq.logprob += logprob
        if len(seq.ids) < group.limit:
            return True
        most = group.request.sampling.max_new
        if group.limit < min(most, self._max_positions - group.prompt_length):
            logger.warning(
                "request %r ended after %d of %d: it fills the whole key-value cache of %d "
                "positions; raise kv_memory",
                group.request_id,
                group.limit,
                most,
                self._capacity,
            )
        self._end(seq, FinishReason.LENGTH)
        return True

    def _commit(self, seq: Sequence, computed: int) -> None:
        """Note that ``computed`` positions are computed, and let other samples share the prompt.

        They can once all positions of the prompt but the last are computed.
        """
        self._blocks.commit(seq, computed)
        group = seq.group
        if group.request.sampling.n > 1 and seq.computed >= group.prompt_length - 1:
            group.donor = seq
            self._release_followers(group)

    def _release_followers(self, group: SequenceGroup) -> None:
        for follower in group.followers:
            self._waiting.push(follower)
        group.followers.clear()

    def _end(self, seq: Sequence, finish: FinishReason, error: str | None = None) -> None:
        """End a sequence. A running one stays in ``_running`` until ``_drop_ended``."""
        if seq.status is SequenceStatus.SWAPPED:
            self._num_swapped -= 1
        self._waiting.discard(seq)
        self._blocks.free(seq, keep=seq.group.prompt_length, forget=error is not None)
        seq.status = SequenceStatus.FINISHED
        seq.finish = finish
        seq.error = error
        if seq.seq_id in self.known:
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
