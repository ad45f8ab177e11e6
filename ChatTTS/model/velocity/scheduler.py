"""Choose which sequences a step moves forward, and apply its result to them.

Each sequence has computed some of its positions, and the step's budget of positions moves some
sequences forward. A prompt is a sequence with many positions left. So prompts are cut into chunks
(chunked prefill), and share steps with sequences that need one position for their next token
(decode).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from ..generation import NOT_FINITE, FinishReason
from ..random_numbers import Pass
from .block_manager import BlockSpaceManager
from .configs import CacheConfig, SchedulerConfig
from .metrics import SchedulerStats
from .plan import StepPlan, StepResult, Work
from .plans_in_flight import PlansInFlight
from .sequence import Advance, Sequence, SequenceGroup, SequenceStatus
from .sequence_queues import SequenceQueues, order_key, uncomputed_at_start

logger = logging.getLogger(__name__)

# From this number of running sequences on, a plan of several steps follows each plan in which
# others start. Otherwise the host of a busy server would plan each step by itself, for longer than
# the device computes it.
_MULTI_STEP_SEQS = 16

# Seconds of sound that a listener has left at least while the sequence is held back. It is about
# the time in which others get their first sound, and the size of the pieces that are decoded.
_BUFFERED_SECONDS = 0.5

# Of plans made ahead, a sequence that is held back misses so many steps, and then has so many. All
# of a busy server would run for as long as they are played if they missed every one of them, and no
# further one could start.
_MISSED_STEPS, _SHARED_STEPS = 8, 4

# Steps of a plan that follows the first frames of an answer, if few run: the host hands these on
# before it has the results of that plan.
_STEPS_BEHIND_FIRST = 2

# A sequence, and how many of its positions a step computes.
Chunk: TypeAlias = tuple[Sequence, int]


class Scheduler:
    """Plans the steps of all requests. It is not thread-safe.

    A plan is in flight from when it is made until :meth:`update` is given its result. Usually
    one plan is; :meth:`schedule_ahead` makes another one meanwhile.

    Args:
        config: budgets and policy. At most as many sequences run as a step has positions, so each
            of them can move forward in every step.
        cache: the KV cache's config, with ``num_blocks`` set.
        max_positions: the most positions that the model can read, of prompt and answer together.
        holds_back: leave sequences that are ahead of their listeners out of steps while other
            listeners hear nothing yet: steps of few sequences are quicker.
        clock: returns seconds; orders requests by their arrival, and tells what was played.
        stale: sequences of an earlier scheduler, for the worker to forget.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        cache: CacheConfig,
        *,
        max_positions: int,
        holds_back: bool = False,
        clock: Callable[[], float] = time.monotonic,
        stale: Iterable[int] = (),
    ) -> None:
        self._config = config
        self._max_positions = max_positions
        self._holds_back = holds_back
        self._clock = clock
        self._blocks = BlockSpaceManager(cache)
        self._capacity = cache.capacity
        self._groups: dict[str, SequenceGroup] = {}
        self._queues = SequenceQueues(config, self._blocks)
        self._in_flight = PlansInFlight(cache.block_size, stale)
        self._arrivals = 0
        self._unfinished = 0
        self._missed = 0  # steps of plans made ahead, by the sequences that are held back

    @property
    def known(self) -> set[int]:
        """Return the ids of the sequences that the worker knows."""
        return self._in_flight.known

    @property
    def stats(self) -> SchedulerStats:
        """Return the present counts."""
        device, queues = self._blocks.device, self._queues
        return SchedulerStats(
            prompt_positions=self._in_flight.prompt_positions,
            cached_positions=self._blocks.hit_positions,
            preempted_recompute=queues.preempted_recompute,
            preempted_swap=queues.preempted_swap,
            copied_blocks=self._blocks.copies,
            running=len(queues.running),
            waiting=self._unfinished - len(queues.running) - queues.num_swapped,
            swapped=queues.num_swapped,
            blocks=device.size,
            used_blocks=device.num_used,
            cached_blocks=device.num_cached,
            touched_blocks=device.num_touched,
        )

    @property
    def num_lost(self) -> int:
        """Return the number of blocks that are held although no request is left: 0, or a fault."""
        return 0 if self._groups else self._blocks.num_held

    # ------------------------------------------------------------ adding and aborting requests

    def __contains__(self, request_id: object) -> bool:
        """Return whether an unfinished request has this id."""
        return request_id in self._groups

    def add(self, group: SequenceGroup) -> None:
        """Add a request that fits the model and the KV cache, under an id that is free.

        ``LLMEngine.new_groups`` checks both.
        """
        length, max_new = group.prompt_length, group.request.sampling.max_new
        group.arrival = self._clock()
        # The id drawn from the last position that fits needs no place in the KV cache itself.
        group.limit = min(max_new, self._max_positions - length, self._capacity + 1 - length)
        key = order_key(self._config, group)
        for seq in group.sequences:
            seq.order = (key, self._arrivals, seq.sample)
        self._arrivals += 1
        self._unfinished += group.unfinished
        self._groups[group.request_id] = group
        self._queues.waiting.push(group.sequences[0])

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
        self._queues.drop_ended()
        return ended

    # ------------------------------------------------------------ a step

    def schedule(self, max_in_flight: int = 1) -> StepPlan | None:
        """Plan a step; return ``None`` if there is nothing to do.

        Args:
            max_in_flight: how many plans may be in flight, of different sequences: as many as a
                pipeline has stages. Each moves about an equal part of the running sequences.

        Raises:
            RuntimeError: this number of plans is in flight already.
        """
        if len(self._in_flight.plans) >= max_in_flight:
            raise RuntimeError("a step is in flight: schedule the next one after its update")
        share = -(-len(self._queues.running) // max_in_flight)
        held = self._held_back() if self._holds_back else None
        chunks = self._decodes(share, held) if held else []
        chunks = chunks or self._decodes(share)
        # At most as many sequences run as the budget has positions, so a position is left for the
        # first of the others.
        budget = self._config.max_num_batched_tokens - len(chunks)
        for seq in self._queues.running:
            if len(seq) - seq.computed > 1 and not seq.plans_in_flight:
                budget -= _add_chunk(chunks, seq, budget)
        while budget and (new := self._queues.start_or_resume_next()) is not None:
            budget -= _add_chunk(chunks, new, budget)
        return self._in_flight.add(chunks, self._blocks.take_moves()) if chunks else None

    def _held_back(self) -> set[Sequence]:
        """Return the sequences that can wait while others have not been heard at all."""
        running = self._queues.running
        if not any(seq.is_awaited for seq in running):
            return set()
        now = self._clock()
        return {seq for seq in running if seq.seconds_buffered(now) > _BUFFERED_SECONDS}

    def _decodes(self, max_sequences: int, held: Collection[Sequence] = ()) -> list[Chunk]:
        """Return the running sequences that need one position, the first ones in order.

        Those in ``held`` are left out.

        If blocks are short, the last sequences in order are preempted, so the first one always
        moves. The preempted ones are not in the answer yet, since they come later. While a
        plan is in flight, a sequence waits for its result instead.
        """
        chunks: list[Chunk] = []
        index, running = 0, self._queues.running
        while index < len(running) and len(chunks) < max_sequences:
            seq = running[index]
            index += 1
            if seq.plans_in_flight or len(seq) - seq.computed > 1 or seq in held:
                continue  # a prompt got the blocks when it was admitted
            if self._in_flight.plans and not self._blocks.extend(seq):
                continue
            while not self._blocks.extend(seq):
                if self._queues.preempt_last() is seq:
                    return chunks
            chunks.append((seq, 1))
        return chunks

    def schedule_ahead(self, max_steps: int = 1) -> StepPlan | None:
        """Plan the steps after the last plan in flight, before its result is known.

        The scheduler sees that a sequence ended only with the result. Until then it is computed
        speculatively, in blocks that it still holds, and ``update`` drops what it draws.

        Waiting sequences start in such a plan if all their positions fit into it. A sequence whose
        last id is in flight is left out.

        Args:
            max_steps: the most steps to plan.

        Returns:
            The plan; ``None`` if the results in flight are needed first: a prompt goes on in the
            next step, a waiting sequence needs other sequences' blocks or more positions than a
            step has, or blocks are short.
        """
        plans = self._in_flight.plans
        moving = self._running_ahead() if plans else None
        if moving is None:
            return None
        held = self._held_back() if self._holds_back else set()
        if held and self._missed >= _MISSED_STEPS:
            held, max_steps = set(), min(max_steps, _SHARED_STEPS)
        moving = [seq for seq in moving if seq not in held] or moving
        if len(moving) < _MULTI_STEP_SEQS and any(seq.is_heard_soon for seq in moving):
            max_steps = min(max_steps, _STEPS_BEHIND_FIRST)
        pauses_admission = len(moving) >= _MULTI_STEP_SEQS and bool(plans[-1][0].new)
        admits = not pauses_admission and self._queues.may_start()
        if admits and not self._may_start_ahead(len(moving)):
            return None
        remaining = [seq.group.limit - len(seq.ids) - seq.drawing for seq in moving]
        steps = self._with_blocks(moving, 1 if admits else min((max_steps, *remaining)))
        if not steps:
            return None
        chunks = [(seq, 1) for seq in moving]
        while (
            admits
            and self._may_start_ahead(sum(count for _, count in chunks))
            and (newcomer := self._queues.start_or_resume_next()) is not None
        ):
            chunks.append((newcomer, len(newcomer) - newcomer.computed))
        self._missed = self._missed + steps if held else 0
        return self._in_flight.add(chunks, self._blocks.take_moves(), steps) if chunks else None

    def _with_blocks(self, moving: Collection[Sequence], steps: int) -> int:
        """Return ``steps`` if all sequences have blocks for them, else 1; 0 if not for that one."""
        fitting = 0
        for count in (steps,) if self._blocks.has_plenty(len(moving), steps) else (1, steps):
            # The last id that these steps draw needs no place in the KV cache yet.
            if not all(self._blocks.extend(seq, seq.drawing + count - 1) for seq in moving):
                break
            fitting = count
        return fitting

    def _running_ahead(self) -> list[Sequence] | None:
        """Return the running sequences that go on after the plans in flight, so far as is known.

        Returns:
            ``None`` if one of them needs its result first, or is in the middle of its prompt.
        """
        moving: list[Sequence] = []
        for seq in self._queues.running:
            was_held = not seq.plans_in_flight and len(seq) - seq.computed == 1
            if not (was_held or seq.drawing or seq.aborted):
                return None
            if not seq.aborted and len(seq.ids) + seq.drawing < seq.group.limit:
                moving.append(seq)
        return moving

    def _may_start_ahead(self, planned: int) -> bool:
        """Return whether the first waiting sequence may start while results are in flight.

        Args:
            planned: positions of the plan without it.
        """
        seq = self._queues.waiting.peek()
        if seq is None:
            return False
        return planned + uncomputed_at_start(seq) <= self._config.max_num_batched_tokens

    # ------------------------------------------------------------ the result of a step

    def update(self, plan: StepPlan, result: StepResult) -> list[Advance]:
        """Apply the result of the oldest plan in flight.

        Returns:
            One ``Advance`` for each sequence that drew or ended.

        Raises:
            RuntimeError: ``plan`` is not that plan.
            ValueError: the result does not have one row for each draw of the plan.
        """
        draws = 0
        for work in plan.work:
            draws += plan.steps * work.draws
        if len(result.ids) != draws:
            raise ValueError(f"the step gave {len(result.ids)} rows, and its plan has {draws}")
        ids = list(map(tuple, result.ids.tolist()))
        logprobs = result.logprobs.tolist()
        finite = result.finite.tolist()
        kept: dict[Sequence, list[int]] = {}  # the rows that each sequence keeps
        first, of_a_step = 0, draws // plan.steps
        for work, seq in self._in_flight.pop(plan):
            rows = range(first, draws, of_a_step) if work.draws else range(0)
            first += work.draws
            if seq.status is SequenceStatus.FINISHED:
                continue  # it was computed speculatively, see schedule_ahead
            if seq.aborted:
                kept[seq] = []
                self._end(seq, FinishReason.ABORT)
            elif not work.draws:
                self._commit(seq, work.start + work.count)
            else:
                kept[seq] = self._take(seq, work, rows, ids, logprobs, finite)
        advances, has_ended = [], False
        for seq, kept_rows in kept.items():
            advances.append(Advance(seq, kept_rows))
            has_ended |= seq.finish is not None
        if has_ended:
            self._queues.drop_ended()
        return advances

    def fail_plan(self, plan: StepPlan, error: str) -> list[Advance]:
        """End the sequences of the oldest plan in flight with an error: it gives no result.

        Returns:
            One ``Advance`` without rows for each sequence that this ended.

        Raises:
            RuntimeError: ``plan`` is not that plan.
        """
        ended = []
        for _, seq in self._in_flight.pop(plan):
            if seq.status is not SequenceStatus.FINISHED:
                self._end(seq, FinishReason.ABORT, None if seq.aborted else error)
                ended.append(Advance(seq, []))
        self._queues.drop_ended()
        return ended

    def _take(
        self,
        seq: Sequence,
        work: Work,
        rows: range,
        ids: list[tuple[int, ...]],
        logprobs: list[float],
        finite: list[bool],
    ) -> list[int]:
        """Append what a sequence drew in the steps of a plan, and end it where that was its end.

        Args:
            work: its work in the first of these steps.
            rows: its rows of ``ids``, ``logprobs`` and ``finite``.

        Returns:
            The rows that it keeps. It does not keep the end, nor what came behind.
        """
        group, finish, error = seq.group, None, None
        of_text = group.request.key.kind is Pass.REFINE  # its id is in the first column
        computed = work.start + work.count - 1
        kept: list[int] = []
        for row in rows:
            if not finite[row]:
                finish, error = FinishReason.ABORT, NOT_FINITE
                break
            computed += 1
            drawn = ids[row][:1] if of_text else ids[row]
            if group.end_id in drawn:
                finish = FinishReason.STOP
                break
            seq.ids.append(drawn)
            seq.logprob += logprobs[row]
            kept.append(row)
            if len(seq.ids) >= group.limit:
                finish = FinishReason.LENGTH
                break
        if computed >= work.start + work.count:
            self._commit(seq, computed)
        listener = group.request.listener
        is_heard = listener is not None and len(seq.ids) >= max(1, listener.first)
        if is_heard and seq.heard_from is None:
            seq.heard_from = self._clock()
        if finish is FinishReason.LENGTH:
            self._warn_of_full_cache(group)
        if finish is not None:
            self._end(seq, finish, error)
        return kept

    def _warn_of_full_cache(self, group: SequenceGroup) -> None:
        """Warn of a request that ends since it fills the KV cache, and for no other reason."""
        max_new = group.request.sampling.max_new
        if group.limit < min(max_new, self._max_positions - group.prompt_length):
            logger.warning(
                "request %r ended after %d of %d: it fills the whole KV cache of %d "
                "positions; raise kv_memory",
                group.request_id,
                group.limit,
                max_new,
                self._capacity,
            )

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
            self._queues.waiting.push(follower)
        group.followers.clear()

    def _end(self, seq: Sequence, finish: FinishReason, error: str | None = None) -> None:
        """End a sequence. A running one stays among the running ones until ``drop_ended``."""
        self._queues.remove(seq)
        self._blocks.free(seq, keep=seq.group.prompt_length, forget=error is not None)
        seq.status = SequenceStatus.FINISHED
        seq.finish = finish
        seq.error = error
        self._in_flight.forget(seq)
        self._unfinished -= 1
        group = seq.group
        group.unfinished -= 1
        self._release_followers(group)
        if not group.unfinished:
            group.donor = None
            del self._groups[group.request_id]


def _add_chunk(chunks: list[Chunk], seq: Sequence, budget: int) -> int:
    """Add as much of a sequence as the budget has positions for; return their number."""
    count = min(len(seq) - seq.computed, budget)
    if count:
        chunks.append((seq, count))
    return count
