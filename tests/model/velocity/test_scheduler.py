"""The scheduler, one rule at a time."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from ChatTTS.model.generation import FinishReason, GenerationRequest
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.velocity import scheduler as scheduler_module
from ChatTTS.model.velocity.plan import MoveKind, StepPlan
from ChatTTS.model.velocity.sequence import SequenceGroup, SequenceStatus

from ...support.velocity_tools import (
    END,
    NUM_CODEBOOKS,
    Engine,
    FakeModel,
    Requests,
    count_positions,
    make_prompt,
    make_result,
    make_sampling,
)
from ...support.waiting import Clock


def counts(engine: Engine, plan: StepPlan | None, *groups: SequenceGroup) -> list[int]:
    """The number of positions that each group moves in a plan."""
    assert plan is not None
    return [sum(work.count for work in engine.works_on(group, plan)) for group in groups]


# ---------------------------------------------------------------- a step's budgets


def test_prompts_are_cut_to_the_budget_and_mixed_with_single_positions() -> None:
    engine = Engine(max_num_batched_tokens=8)
    first = engine.add(5, max_new=20)
    second = engine.add(18, max_new=20)
    plans = engine.steps(5)
    assert [counts(engine, plan, first, second) for plan in plans] == [
        [5, 3],
        [1, 7],
        [1, 7],
        [1, 1],
        [1, 1],
    ]
    assert [count_positions(plan) for plan in plans] == [8, 8, 8, 2, 2]
    engine.run()


def test_no_more_than_max_num_seqs_run() -> None:
    engine = Engine(max_num_seqs=3)
    for _ in range(7):
        engine.add(3)
    engine.step()
    assert engine.scheduler.stats.running == 3
    assert engine.scheduler.stats.waiting == 4
    engine.run()


def test_single_positions_go_before_chunks_and_a_long_prompt_still_gets_on() -> None:
    engine = Engine(max_num_batched_tokens=4, max_num_seqs=10)
    short = [engine.add(1, max_new=30) for _ in range(3)]
    engine.steps(1)
    long = engine.add(12, max_new=2)
    plans = engine.steps(12)
    assert [counts(engine, plan, *short, long) for plan in plans] == [[1, 1, 1, 1]] * 12
    engine.run()


def test_where_there_are_more_than_positions_each_still_moves_within_bounded_steps() -> None:
    engine = Engine(max_num_batched_tokens=2, max_num_seqs=10)
    groups = [engine.add(2, max_new=5) for _ in range(6)]
    assert engine.run() <= 6 * (2 + 5)
    firsts = [
        next(i for i, plan in enumerate(engine.plans) if engine.works_on(group, plan))
        for group in groups
    ]
    assert firsts == sorted(firsts)


def test_nothing_to_do_is_no_plan() -> None:
    engine = Engine()
    assert not engine.scheduler._groups
    assert engine.scheduler.schedule() is None


# ---------------------------------------------------------------- order of the requests


def first_steps(engine: Engine, groups: list[SequenceGroup]) -> list[SequenceGroup]:
    """The groups, sorted by the step of their first work."""
    order = [work.seq_id for plan in engine.plans for work in plan.work]
    return sorted(groups, key=lambda group: order.index(group.sequences[0].seq_id))


def test_first_come_first_served() -> None:
    engine = Engine(max_num_seqs=1)
    groups = [engine.add(3, priority=-number) for number in range(5)]
    engine.run()
    assert first_steps(engine, groups) == groups


def test_lower_priorities_first_and_equal_ones_by_their_arrival() -> None:
    engine = Engine(max_num_seqs=1, policy="priority", clock=Clock())
    groups = [engine.add(3, priority=priority) for priority in (2, 0, 1, 0, -1)]
    engine.run()
    assert first_steps(engine, groups) == [groups[i] for i in (4, 1, 3, 2, 0)]


def test_a_request_does_not_starve_behind_a_stream_of_lower_priorities() -> None:
    clock = Clock()
    engine = Engine(max_num_seqs=1, policy="priority", ageing=10.0, clock=clock)
    patient = engine.add(2, max_new=1, priority=3)
    waited = 0
    while patient.unfinished and waited < 40:
        engine.add(2, max_new=1, priority=0)
        waited += 1
        clock.now += 1.0
        assert engine.step()
    assert 30 <= waited <= 32  # three steps of priority weigh thirty seconds
    engine.run()


@pytest.mark.slow
def test_ten_thousand_that_wait_cost_little_each(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = [0]

    class Counted(float):
        def __eq__(self, other: object) -> bool:
            compared[0] += 1
            return float(self) == other

        def __hash__(self) -> int:
            return float.__hash__(self)

    monkeypatch.setattr(scheduler_module, "order_key", lambda config, group: Counted())
    requests = Requests()
    engine = Engine(max_num_seqs=8)
    scheduler = engine.scheduler
    prompt, number = make_prompt([1, 2, 3]), 10_000
    groups = [requests.make(prompt, max_new=1) for _ in range(number)]
    for group in groups:
        scheduler.add(group)
    for group in groups[: 3 * number // 4]:
        assert scheduler.abort(group.request_id) == group.sequences
    assert scheduler.stats.waiting == number // 4
    assert len(scheduler._queues.waiting._heap) <= number // 2
    while (plan := scheduler.schedule()) is not None:
        scheduler.update(plan, engine.worker.run(plan))
    assert all(group.unfinished == 0 for group in groups)
    assert compared[0] < 40 * number


# ---------------------------------------------------------------- requests that are refused


def test_an_id_can_be_used_again_once_its_request_ended() -> None:
    engine = Engine()
    for ended in (1, 2):
        engine.add(3, request_id="again")
        engine.run()
        assert len(engine.ended) == ended


# ---------------------------------------------------------------- how a sequence ends


@pytest.mark.parametrize("max_new", [1, 5])
@pytest.mark.parametrize("end", [None, 0, 1, 4, 5])
def test_the_end_is_not_kept_and_the_last_of_the_limit_is(max_new: int, end: int | None) -> None:
    engine = Engine(model=FakeModel(lambda key: end))
    seq = engine.add(3, max_new=max_new).sequences[0]
    engine.run()
    stops = end is not None and end < max_new
    assert len(seq.ids) == (end if stops else max_new)
    assert seq.finish is (FinishReason.STOP if stops else FinishReason.LENGTH)


@pytest.mark.parametrize("codebook", range(NUM_CODEBOOKS))
@pytest.mark.parametrize("kind", Pass)
def test_a_frame_ends_in_any_codebook_and_a_text_in_its_one_id(kind: Pass, codebook: int) -> None:
    engine = Engine()
    group = engine.requests.make(3, kind=kind)
    engine.scheduler.add(group)
    plan = engine.scheduler.schedule()
    assert plan is not None
    row = [END if codebook == i else 0 for i in range(NUM_CODEBOOKS)]
    (advance,) = engine.scheduler.update(plan, make_result([tuple(row)]))
    ends = kind is Pass.CODE or codebook == 0
    assert advance.sequence.finish is (FinishReason.STOP if ends else None)
    assert advance.rows == ([] if ends else [0])
    assert group.sequences[0].ids == ([] if ends else [(0,)])


def test_the_models_last_position_is_a_limit() -> None:
    engine = Engine(max_positions=10)
    group = engine.add(6, max_new=30)
    engine.run()
    assert group.limit == len(group.sequences[0].ids) == 4


def test_logits_that_are_not_finite_end_their_sequence_alone() -> None:
    engine = Engine(model=FakeModel(breaks=lambda key, index: key.seed == 1 and index == 2))
    groups = [engine.add(3, max_new=5, seed=seed) for seed in range(3)]
    engine.run()
    errors = [group.sequences[0].error for group in groups]
    assert [error is None for error in errors] == [True, False, True]
    assert "not finite" in str(errors[1])
    assert "chattts verify" in str(errors[1])
    assert groups[1].sequences[0].finish is FinishReason.ABORT


# ---------------------------------------------------------------- short of blocks


def test_the_last_in_rank_is_preempted_and_comes_back_first() -> None:
    engine = Engine(num_blocks=8, max_num_seqs=3)
    groups = [engine.add(7, max_new=12) for _ in range(4)]
    engine.step_until(lambda stats: stats.preempted_recompute)
    statuses = [group.sequences[0].status for group in groups]
    waiting, running = SequenceStatus.WAITING, SequenceStatus.RUNNING
    assert statuses == [running, running, waiting, waiting]
    engine.run()
    assert first_steps(engine, groups) == groups


def test_the_highest_priority_value_is_the_victim() -> None:
    engine = Engine(num_blocks=6, policy="priority", clock=Clock())
    groups = [engine.add(7, max_new=12, priority=priority) for priority in (1, 2, 0)]
    engine.step_until(lambda stats: stats.preempted_recompute)
    assert groups[1].sequences[0].status is SequenceStatus.WAITING
    engine.run()


@pytest.mark.parametrize(("num_host_blocks", "swaps"), [(8, True), (1, False), (0, False)])
def test_what_is_preempted_is_swapped_where_the_host_has_room(
    num_host_blocks: int, swaps: bool
) -> None:
    engine = Engine(num_blocks=5, num_host_blocks=num_host_blocks)
    for _ in range(2):
        engine.add(7, max_new=10)
    engine.step_until(lambda stats: stats.preempted_recompute + stats.preempted_swap)
    stats = engine.scheduler.stats
    assert (stats.preempted_swap, stats.preempted_recompute) == ((1, 0) if swaps else (0, 1))
    assert stats.swapped == swaps
    engine.run()
    kinds = [move.kind for plan in engine.plans for move in plan.moves]
    assert (MoveKind.IN in kinds) == swaps or num_host_blocks > 0


def test_two_that_need_the_whole_pool_each_do_not_chase_one_another() -> None:
    engine = Engine(num_blocks=8)
    for _ in range(2):
        engine.add(4, max_new=28)
    assert engine.run() <= 2 * 28 + 4
    stats = engine.scheduler.stats
    assert stats.preempted_recompute == 1


def test_few_admitted_requests_are_preempted() -> None:
    engine = Engine(num_blocks=10, max_num_seqs=8, enable_prefix_caching=False)
    for _ in range(8):
        engine.add(8, max_new=8)
    engine.run()
    assert 0 < engine.scheduler.stats.preempted_recompute <= 3  # 6 with no blocks to spare


def test_what_outgrows_the_pool_ends_with_a_warning_and_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine(num_blocks=3)
    sole = engine.add(5, max_new=40).sequences[0]
    other = engine.add(5, max_new=3).sequences[0]
    with caplog.at_level(logging.WARNING):
        engine.run()
    assert sole.finish is FinishReason.LENGTH
    assert len(sole) == 13  # what is drawn last needs no place
    assert other.finish is FinishReason.LENGTH
    (record,) = caplog.records
    assert "kv_memory" in record.getMessage()


def test_a_prompt_that_just_fits_the_pool() -> None:
    engine = Engine(num_blocks=3)
    seq = engine.add(12, max_new=5).sequences[0]
    engine.run()
    assert len(seq.ids) == 1


# ---------------------------------------------------------------- samples of one prompt


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize(("length", "copies"), [(10, 2), (9, 0), (1, 0)])
def test_samples_share_their_prompt(length: int, copies: int, caching: bool) -> None:
    engine = Engine(enable_prefix_caching=caching)
    group = engine.add(length, n=3, max_new=5)
    plans = engine.steps(2)
    assert [[work.count for work in plan.work] for plan in plans] == [[length], [1, 1, 1]]
    assert engine.scheduler.stats.copied_blocks == copies
    assert engine.scheduler.stats.cached_positions == 0
    engine.run()
    assert len({tuple(seq.ids) for seq in group.sequences}) == 3


def test_samples_draw_with_keys_of_their_own() -> None:
    requests = Requests()
    key = DrawKey(5, Pass.REFINE, utterance=7, sample=2, attempt=1)
    request = GenerationRequest(make_prompt([1]), make_sampling(n=3), key, request_id="x")
    group = SequenceGroup(request, end_id=END, seq_ids=requests.seq_ids)
    assert [seq.request.key for seq in group.sequences] == [
        replace(key, sample=i) for i in (2, 3, 4)
    ]
    assert [seq.seq_id for seq in group.sequences] == [0, 1, 2]


def test_samples_begin_while_the_first_has_one_position_left() -> None:
    engine = Engine(max_num_batched_tokens=4)
    engine.add(9, n=2, max_new=3)
    plans = engine.steps(3)
    assert [[(w.start, w.count) for w in plan.work] for plan in plans] == [
        [(0, 4)],
        [(4, 4)],
        [(8, 1), (8, 1)],
    ]
    engine.run()


def test_samples_whose_first_has_left_find_its_blocks() -> None:
    engine = Engine(model=FakeModel(lambda key: 0 if key.sample == 0 else None))
    engine.add(10, n=2, max_new=3)
    plans = engine.steps(2)
    assert [(w.start, w.count) for w in plans[1].work] == [(8, 2)]
    assert engine.scheduler.stats.cached_positions == 8
    engine.run()


def test_samples_whose_first_gave_no_numbers_go_on() -> None:
    engine = Engine(model=FakeModel(breaks=lambda key, index: key.sample == 0))
    group = engine.add(10, n=3, max_new=3)
    engine.run()
    assert [len(seq.ids) for seq in group.sequences] == [0, 3, 3]


def test_samples_are_computed_by_turns_where_few_run() -> None:
    engine = Engine(max_num_seqs=2, enable_prefix_caching=False)
    engine.add(10, n=5, max_new=3)
    engine.add(10, n=2, max_new=3)
    engine.run()


# ---------------------------------------------------------------- plans ahead


def test_a_prompt_that_was_swapped_out_goes_on_within_the_budget() -> None:
    engine = Engine(
        ahead=1,
        num_blocks=11,
        num_host_blocks=8,
        enable_prefix_caching=False,
        max_num_batched_tokens=4,
    )
    engine.add(8, max_new=10)
    engine.add(8, max_new=9)
    engine.add(13, max_new=7)
    engine.run()
    assert engine.scheduler.stats.preempted_swap == 1
    assert max(sum(work.count for work in plan.work) for plan in engine.plans) == 4


def test_among_many_several_steps_follow_a_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "_MULTI_STEP_SEQS", 3)
    engine = Engine(ahead=4, max_num_batched_tokens=64)
    for _ in range(3):
        engine.add(5, max_new=60)
    engine.steps(4)
    told = []
    for _ in range(3):
        engine.add(4, max_new=60)
        before = len(engine.plans)
        while len(engine.plans) < before + 2:
            engine.steps(1)
        told += [(plan.steps, len(plan.new)) for plan in engine.plans[before:]]
    assert told == [(1, 1), (4, 0)] * 3
    engine.run()


def test_a_step_is_planned_ahead_where_blocks_are_short_of_several() -> None:
    engine = Engine(ahead=8, num_blocks=5, enable_prefix_caching=False)
    for _ in range(2):
        engine.add(5, max_new=9)
    engine.begin()  # each has two blocks of four positions, and one is left
    ahead = engine.scheduler.schedule_ahead(8)
    assert ahead is not None
    assert (ahead.steps, len(ahead.work)) == (1, 2)


def test_plans_of_a_pipeline_move_different_sequences() -> None:
    engine = Engine(stages=2, max_num_batched_tokens=32)
    groups = [engine.add(3, max_new=20) for _ in range(5)]
    engine.steps(3)
    told = [counts(engine, plan, *groups) for plan in engine.plans[-2:]]
    assert sorted(map(sum, told)) == [2, 3]
    assert [a + b for a, b in zip(*told, strict=True)] == [1] * 5
    engine.begin()
    with pytest.raises(RuntimeError, match="in flight"):
        engine.scheduler.schedule(2)
    engine.run()


def test_samples_of_a_running_prompt_start_ahead() -> None:
    """Their prompt is computed, so they need not wait for the results in flight."""
    engine = Engine(ahead=1, max_num_batched_tokens=32)
    engine.add(9, max_new=8, n=3)
    engine.steps(1)
    first, second = engine.plans  # the second one is in flight
    assert (len(first.new), len(second.new)) == (1, 0)
    engine.begin()
    assert engine.in_flight[0] is second
    assert len(engine.in_flight[1].new) == 2
    engine.run()
