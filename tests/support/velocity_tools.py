"""Requests, a model that is a plain function, and a worker that checks its KV cache.

Every slot of the worker's KV cache names the prefix that the slot was computed for. Before a
sequence moves forward, all slots that it is about to read are compared with its own prefixes. Every
wrong share, copy, swap or stale hit fails that check.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ChatTTS.model.generation import FinishReason, GenerationRequest, Listener
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.block_pool import BlockPool
from ChatTTS.model.velocity.configs import CacheConfig, SchedulerConfig
from ChatTTS.model.velocity.metrics import SchedulerStats
from ChatTTS.model.velocity.plan import MoveKind, SequenceData, StepPlan, StepResult, Work
from ChatTTS.model.velocity.scheduler import Scheduler
from ChatTTS.model.velocity.sequence import Advance, SequenceGroup, SequenceStatus
from ChatTTS.model.velocity.sequence import Sequence as Sample

NUM_CODEBOOKS = 4
END = 99
MAX_POSITIONS = 64
LOGPROB = -0.5  # of every row; sums of it are exact
Row = tuple[int, ...]


# ---------------------------------------------------------------- requests


def make_prompt(
    text: Iterable[int],
    codes: Sequence[Row] = (),
    speaker: Sequence[float] | None = None,
    slots: Iterable[int] = (),
) -> Prompt:
    """Make a prompt of text ids, sample codes, a speaker vector and its slots in the text."""
    ids = np.array(list(text), dtype=np.int64)
    return Prompt(
        text=ids,
        codes=np.array(codes, dtype=np.int64).reshape(-1, NUM_CODEBOOKS),
        speaker=None if speaker is None else np.array(speaker, dtype=np.float32),
        speaker_slots=np.isin(np.arange(len(ids)), list(slots)),
    )


def make_sampling(max_new: int = 4, n: int = 1, kind: Pass = Pass.CODE) -> SamplingParams:
    num_codebooks = NUM_CODEBOOKS if kind is Pass.CODE else 1
    return SamplingParams((1.0,) * num_codebooks, 0.7, 20, 1.0, 0, max_new, n=n)


@dataclass
class Requests:
    """A maker of sequence groups, whose request ids and sequence ids are unique."""

    seq_ids: Iterator[int] = field(default_factory=itertools.count)
    made: list[SequenceGroup] = field(default_factory=list)

    def make(
        self,
        prompt: Prompt | int,
        *,
        max_new: int = 4,
        n: int = 1,
        seed: int = 0,
        kind: Pass = Pass.CODE,
        priority: float = 0,
        request_id: str | None = None,
        listener: Listener | None = None,
    ) -> SequenceGroup:
        """Make a group; a ``prompt`` that is a number of positions shares no prefix with others."""
        if isinstance(prompt, int):
            prompt = make_prompt([1000 + len(self.made)] * prompt)
        request = GenerationRequest(
            prompt,
            make_sampling(max_new, n, kind),
            DrawKey(seed, kind),
            request_id=request_id or f"request-{len(self.made)}",
            priority=priority,
            listener=listener,
        )
        group = SequenceGroup(request, end_id=END, seq_ids=self.seq_ids)
        self.made.append(group)
        return group


def make_result(rows: Sequence[Row], finite: Sequence[bool] | None = None) -> StepResult:
    """Make a result of ids [n, num_codebooks] with one log-probability and no hidden states."""
    hiddens: Any = None
    return StepResult(
        ids=np.array(rows, dtype=np.int64).reshape(-1, NUM_CODEBOOKS),
        hiddens=hiddens,
        logprobs=np.full(len(rows), LOGPROB, dtype=np.float32),
        finite=np.array([True] * len(rows) if finite is None else finite, dtype=bool),
    )


def count_positions(plan: StepPlan) -> int:
    """Return the number of positions that a plan computes."""
    return sum(work.count for work in plan.work) + (plan.steps - 1) * len(plan.work)


# ---------------------------------------------------------------- the model


def draw(key: DrawKey, index: int) -> Row:
    """Return the ``index``-th ids of a sample; there are few ids, so that prefixes repeat."""
    mixed = hash((key.seed, key.sample, key.kind.value, index))
    return tuple(mixed >> (3 * codebook) & 1 for codebook in range(NUM_CODEBOOKS))


@dataclass(frozen=True)
class FakeModel:
    """A model whose draws depend on the key and the index alone.

    Attributes:
        ends: the index at which a sample draws its end; ``None`` for never.
        breaks: whether a sample's logits at an index are not finite.
    """

    ends: Callable[[DrawKey], int | None] = lambda key: None
    breaks: Callable[[DrawKey, int], bool] = lambda key, index: False

    def row(self, key: DrawKey, index: int) -> Row:
        row = draw(key, index)
        if self.ends(key) == index:
            codebook = index % NUM_CODEBOOKS if key.kind is Pass.CODE else 0
            row = (*row[:codebook], END, *row[codebook + 1 :])
        elif key.kind is Pass.REFINE:
            row = (*row[:-1], END)  # only the first column counts in a text
        return row

    def alone(self, seq: Sample, most: int) -> tuple[list[Row], FinishReason]:
        """Return the ids and the finish reason of a sample that has up to ``most`` positions."""
        group = seq.group
        limit = min(group.request.sampling.max_new, most - len(group.request.prompt))
        num_codebooks = NUM_CODEBOOKS if group.request.key.kind is Pass.CODE else 1
        rows: list[Row] = []
        for index in range(limit):
            if self.breaks(seq.request.key, index):
                return rows, FinishReason.ABORT
            if self.ends(seq.request.key) == index:
                return rows, FinishReason.STOP
            rows.append(self.row(seq.request.key, index)[:num_codebooks])
        return rows, FinishReason.LENGTH


# ---------------------------------------------------------------- the worker


class _Known:
    """The worker's record of a sequence: its data, and the identity of each of its prefixes."""

    def __init__(self, data: SequenceData) -> None:
        self.data = data
        self.drawn = 0
        self.is_broken = False  # no sequence may read what it writes from now on
        prompt = data.request.prompt
        speaker = prompt.speaker
        self.prefixes = [hash(("root", None if speaker is None else speaker.tobytes()))]
        for token, is_slot in zip(prompt.text.tolist(), prompt.speaker_slots.tolist(), strict=True):
            self.add("slot" if is_slot else "text", token)
        for frame in prompt.codes.tolist():
            self.add("codes", tuple(frame))

    def __len__(self) -> int:
        return len(self.prefixes) - 1

    def add(self, kind: str, token: int | Row) -> None:
        self.prefixes.append(hash((self.prefixes[-1], kind, token)))


class FakeWorker:
    """A worker that runs plans on a KV cache whose slots name their prefixes."""

    def __init__(self, cache: CacheConfig, model: FakeModel) -> None:
        self._size = cache.block_size
        self._model = model
        self._device = [[0] * self._size for _ in range(cache.num_blocks or 0)]
        self._host = [[0] * self._size for _ in range(cache.num_host_blocks)]
        self._known: dict[int, _Known] = {}
        self._met: set[int] = set()

    def run(self, plan: StepPlan) -> StepResult:
        for seq_id in plan.ended:
            del self._known[seq_id]
        for move in plan.moves:
            source = self._host if move.kind is MoveKind.IN else self._device
            target = self._host if move.kind is MoveKind.OUT else self._device
            target[move.target] = list(source[move.source])
        for data in plan.new:
            assert data.seq_id not in self._met, "a sequence is new only once"
            self._met.add(data.seq_id)
            self._known[data.seq_id] = _Known(data)
        self._check_writes(plan)
        rows: list[tuple[Row, bool]] = []
        for step in range(plan.steps):
            for work in plan.work:
                assert len(work.block_table) == -(
                    -(work.start + work.count + plan.steps - 1) // self._size
                )
                rows += self._compute(replace(work, start=work.start + step))
        return make_result([row for row, _ in rows], [finite for _, finite in rows])

    def _check_writes(self, plan: StepPlan) -> None:
        """Check that a block that a sequence writes is read by no other sequence."""
        readers: dict[int, int] = {}
        for block in itertools.chain.from_iterable(work.block_table for work in plan.work):
            readers[block] = readers.get(block, 0) + 1
        for work in plan.work:
            for block in work.block_table[work.start // self._size :]:
                assert readers[block] == 1, f"block {block} is shared and written into"

    def _compute(self, work: Work) -> list[tuple[Row, bool]]:
        known = self._known[work.seq_id]
        stop = work.start + work.count
        assert work.count > 0
        assert stop <= len(known)
        assert work.draws == (stop == len(known))
        expected = known.prefixes[1:]
        for position in range(0 if known.is_broken else work.start):
            block = self._device[work.block_table[position // self._size]]
            assert block[position % self._size] == expected[position], (
                f"sequence {work.seq_id} would read another prefix at position {position}"
            )
        key, index = known.data.request.key, known.drawn
        finite = not (work.draws and self._model.breaks(key, index)) and not known.is_broken
        known.is_broken = not finite
        for position in range(work.start, stop):
            block = self._device[work.block_table[position // self._size]]
            block[position % self._size] = expected[position] if finite else -1
        if not work.draws:
            return []
        row = self._model.row(key, index)
        known.drawn += 1
        if key.kind is Pass.CODE:
            known.add("codes", row)
        else:
            known.add("text", row[0])
        return [(row, finite)]


# ---------------------------------------------------------------- all together


class Engine:
    """A scheduler and a worker, with checks of all invariants after every step."""

    def __init__(
        self,
        *,
        model: FakeModel | None = None,
        max_positions: int = MAX_POSITIONS,
        block_size: int = 4,
        num_blocks: int = 64,
        num_host_blocks: int = 0,
        enable_prefix_caching: bool = True,
        clock: Callable[[], float] | None = None,
        holds_back: bool = False,
        ahead: int = 0,
        stages: int = 1,
        **scheduler: Any,
    ) -> None:
        self.cache = CacheConfig(
            block_size=block_size,
            num_blocks=num_blocks,
            num_host_blocks=num_host_blocks,
            enable_prefix_caching=enable_prefix_caching,
        )
        self.config = SchedulerConfig(**scheduler)
        self.model = model or FakeModel()
        # Most positions of one sequence: the last ids drawn need no place in the KV cache.
        self.most = min(max_positions, block_size * num_blocks + 1)
        self.scheduler = Scheduler(
            self.config,
            self.cache,
            max_positions=max_positions,
            holds_back=holds_back,
            clock=clock or itertools.count().__next__,
        )
        self.holds_back = holds_back
        self.worker = FakeWorker(self.cache, self.model)
        self.requests = Requests()
        self.ahead = ahead  # most steps planned while earlier ones are in flight
        self.stages = stages  # of a pipeline; with several, there are no steps ahead
        self.in_flight: deque[StepPlan] = deque()
        self.plans: list[StepPlan] = []
        self.ended: dict[int, Sample] = {}

    def add(self, prompt: Prompt | int, **request: Any) -> SequenceGroup:
        group = self.requests.make(prompt, **request)
        self.scheduler.add(group)
        return group

    def abort(self, group: SequenceGroup) -> None:
        for seq in self.scheduler.abort(group.request_id):
            self._note_end(seq, FinishReason.ABORT)
        check(self.scheduler)

    def begin(self) -> StepPlan | None:
        """Plan a step and leave it in flight, with steps planned ahead if ``ahead`` is set."""
        if self.stages > 1:
            return self._fill_pipeline()
        if not self.in_flight:
            running = list(self.scheduler._queues.running)
            plan = self.scheduler.schedule()
            check(self.scheduler)
            if plan is None:
                assert not self.scheduler._groups
                return None
            self._check_plan(plan, running)
            self._submit(plan)
        if self.ahead and len(self.in_flight) < 2:
            following = self.scheduler.schedule_ahead(self.ahead)
            check(self.scheduler)
            if following is not None:
                assert 1 <= following.steps <= self.ahead
                first_step = sum(work.count for work in following.work)
                assert first_step <= self.config.max_num_batched_tokens
                self._submit(following)
        return self.in_flight[0]

    def _fill_pipeline(self) -> StepPlan | None:
        """Plan a step for each stage; no two plans in flight move one sequence."""
        while len(self.in_flight) < self.stages:
            plan = self.scheduler.schedule(self.stages)
            check(self.scheduler)
            if plan is None:
                break
            assert plan.steps == 1
            assert count_positions(plan) <= self.config.max_num_batched_tokens
            assert len(self.scheduler._queues.running) <= self.config.max_num_seqs
            moved = [work.seq_id for each in (plan, *self.in_flight) for work in each.work]
            assert len(set(moved)) == len(moved)
            self._submit(plan)
        assert self.in_flight or not self.scheduler._groups
        return self.in_flight[0] if self.in_flight else None

    def _submit(self, plan: StepPlan) -> None:
        self.plans.append(plan)
        self.in_flight.append(plan)

    def finish(self) -> list[Advance]:
        """Run the plan that has been in flight longest."""
        plan = self.in_flight.popleft()
        result = self.worker.run(plan)
        before = {seq.seq_id: len(seq.ids) for seq in self.scheduler._queues.running}
        advances = self.scheduler.update(plan, result)
        assert len({advance.sequence for advance in advances}) == len(advances)
        for advance in advances:
            seq = advance.sequence
            gained = seq.ids[before[seq.seq_id] :]
            for row, own in zip(advance.rows, gained, strict=True):
                assert tuple(result.ids[row, : len(own)].tolist()) == own
            assert gained or seq.finish is not None
            assert seq.finish is FinishReason.ABORT or seq.error is None
            if seq.finish is not None:
                self._note_end(seq, seq.finish)
        check(self.scheduler)
        return advances

    def step(self) -> bool:
        """Run one whole step; return whether there was work."""
        if self.begin() is None:
            return False
        self.finish()
        return True

    def steps(self, number: int) -> list[StepPlan]:
        """Run ``number`` steps; return their plans."""
        for _ in range(number):
            assert self.step()
        return self.plans[-number:]

    def step_until(self, condition: Callable[[SchedulerStats], object]) -> None:
        """Step until ``condition`` holds for the stats; fail if the work ends before."""
        while not condition(self.scheduler.stats):
            assert self.step()

    def run(self, most: int = 2000) -> int:
        """Step until all work is done; return the number of steps."""
        for steps in range(most):
            if not self.step():
                self.check_done()
                return steps
        raise AssertionError("it goes on for ever")

    def check_done(self) -> None:
        """Check that every sample ended exactly as it would alone, and that no block is left."""
        for group in self.requests.made:
            for seq in group.sequences:
                assert self.ended.get(seq.seq_id) is seq, "everyone ends, once"
                rows, finish = self.model.alone(seq, self.most)
                if seq.finish is FinishReason.ABORT and seq.error is None:
                    assert seq.ids == rows[: len(seq.ids)]
                else:
                    assert (seq.ids, seq.finish) == (rows, finish)
                assert seq.logprob == LOGPROB * len(seq.ids)
        stats = self.scheduler.stats
        assert (stats.running, stats.waiting, stats.swapped) == (0, 0, 0)
        assert stats.used_blocks == 0
        assert self.scheduler._blocks.device.num_free + stats.cached_blocks == self.cache.num_blocks
        assert self.scheduler._blocks.host.num_used == 0

    def works_on(self, group: SequenceGroup, plan: StepPlan) -> list[Work]:
        """Return the group's part of a plan."""
        ids = {seq.seq_id for seq in group.sequences}
        return [work for work in plan.work if work.seq_id in ids]

    def _note_end(self, seq: Sample, finish: FinishReason) -> None:
        assert seq.seq_id not in self.ended, "everyone ends only once"
        assert seq.finish is finish
        self.ended[seq.seq_id] = seq

    def _check_plan(self, plan: StepPlan, before: list[Sample]) -> None:
        assert count_positions(plan) <= self.config.max_num_batched_tokens
        assert len(self.scheduler._queues.running) <= self.config.max_num_seqs
        work = {w.seq_id: w for w in plan.work}
        assert len(work) == len(plan.work)
        may_hold = self.holds_back and any(seq.is_awaited for seq in before)
        for seq in self.scheduler._queues.running:
            if seq.seq_id in work:
                assert work[seq.seq_id].start == seq.computed
            else:  # one position waits only for listeners who hear nothing
                assert len(seq) - seq.computed > 1 or (may_hold and seq.heard_from is not None)
        if before and not may_hold:
            assert before[0].seq_id in work, "the first in order moves in every step"


def check(scheduler: Scheduler) -> None:
    """Check the invariants that hold between any two calls."""
    running = scheduler._queues.running
    blocks = scheduler._blocks
    size = blocks._size
    samples = [seq for group in scheduler._groups.values() for seq in group.sequences]
    assert running == sorted(running, key=lambda seq: seq.order)
    assert {s.seq_id for s in running} == {
        s.seq_id for s in samples if s.status is SequenceStatus.RUNNING
    }
    for seq in running:
        assert seq.computed < len(seq)
        assert len(seq.block_table) * size >= seq.computed
        assert len(set(seq.block_table)) == len(seq.block_table)
        assert not seq.host_table
    for seq in samples:
        if seq.status is SequenceStatus.SWAPPED:
            assert not seq.block_table
            assert len(seq.host_table) * size >= seq.computed
        elif seq.status is not SequenceStatus.RUNNING:
            assert (seq.block_table, seq.host_table, seq.computed) == ([], [], 0)
    check_pool(blocks.device, [seq.block_table for seq in samples])
    check_pool(blocks.host, [seq.host_table for seq in samples])
    for block, known in enumerate(blocks.device.cached):
        assert known is None or known.device == block
    for block, known in enumerate(blocks.host.cached):
        assert known is None or known.host == block
    for known in blocks.prefixes._known.values():
        assert known.device is not None or known.host is not None
        assert known.device is None or blocks.device.cached[known.device] is known
        assert known.host is None or blocks.host.cached[known.host] is known
    stats = scheduler.stats
    counts = (stats.running, stats.swapped, stats.waiting)
    assert counts == tuple(
        sum(seq.status is status for seq in samples)
        for status in (SequenceStatus.RUNNING, SequenceStatus.SWAPPED, SequenceStatus.WAITING)
    )


def check_pool(pool: BlockPool, tables: list[list[int]]) -> None:
    """Check that each block is in one state, and held as often as block tables name it."""
    held = [0] * pool.size
    for block in itertools.chain.from_iterable(tables):
        held[block] += 1
    assert pool.references == held
    lying = [*pool._freed, *range(pool.num_touched, pool.size)]
    free, evictable = set(lying), set(pool._evictable) | set(pool._short_lived)
    used = {block for block in range(pool.size) if held[block]}
    assert len(free) == len(lying)
    assert free | evictable | used == set(range(pool.size))
    assert len(free) + len(evictable) + len(used) == pool.size
    assert (pool.num_free, pool.num_cached, pool.num_used) == (
        len(free),
        len(evictable),
        len(used),
    )
    assert all(
        (pool.cached[block] is not None) >= (block in evictable) for block in range(pool.size)
    )
    assert all(pool.cached[block] is None for block in free)
    assert list(pool._unshared) == [b for b in pool._evictable if not pool._shared[b]]
