"""Aborts of requests in every state, and what the scheduler tells the worker of them."""

from __future__ import annotations

import pytest

from ChatTTS.model.generation import FinishReason
from ChatTTS.model.velocity.plan import StepPlan
from ChatTTS.model.velocity.sequence import SequenceStatus

from ...support.velocity_tools import Engine, make_result

# ---------------------------------------------------------------- requests that are taken back


def test_abort_while_it_waits() -> None:
    engine = Engine(max_num_seqs=1)
    engine.add(3)
    group = engine.add(3, n=2)
    engine.step()
    engine.abort(group)
    assert [seq.finish for seq in group.sequences] == [FinishReason.ABORT] * 2
    engine.run()
    told = {data.seq_id for plan in engine.plans for data in plan.new}
    assert told.isdisjoint(seq.seq_id for seq in group.sequences)


def test_abort_between_steps() -> None:
    engine = Engine()
    group = engine.add(9, max_new=9, n=2)
    engine.steps(3)
    engine.abort(group)
    stats = engine.scheduler.stats
    assert (stats.used_blocks, stats.running) == (0, 0)
    assert not engine.scheduler._groups


def test_abort_in_the_middle_of_a_prompt() -> None:
    engine = Engine(max_num_batched_tokens=4)
    group = engine.add(9)
    engine.steps(1)
    engine.abort(group)
    assert engine.scheduler.stats.used_blocks == 0
    engine.run()


def test_abort_with_a_step_in_flight_frees_only_when_it_has_returned() -> None:
    engine = Engine()
    group = engine.add(9, max_new=9)
    other = engine.add(5)
    engine.begin()
    assert engine.scheduler.abort(group.request_id) == []
    assert engine.scheduler.abort(group.request_id) == []
    assert engine.scheduler.stats.used_blocks == 5
    advances = engine.finish()
    assert [(a.sequence.group, a.rows, a.sequence.finish) for a in advances] == [
        (group, [], FinishReason.ABORT),
        (other, [1], None),
    ]
    assert engine.scheduler.stats.used_blocks == 2
    engine.run()


@pytest.mark.parametrize("num_host_blocks", [8, 0])
def test_abort_while_it_is_preempted(num_host_blocks: int) -> None:
    engine = Engine(num_blocks=5, num_host_blocks=num_host_blocks)
    engine.add(7, max_new=10)
    victim = engine.add(7, max_new=10)
    engine.step_until(lambda stats: stats.preempted_recompute + stats.preempted_swap)
    wanted = SequenceStatus.SWAPPED if num_host_blocks else SequenceStatus.WAITING
    assert victim.sequences[0].status is wanted
    engine.abort(victim)
    stats = engine.scheduler.stats
    assert (stats.swapped, engine.scheduler._blocks.host.num_used) == (0, 0)
    engine.run()
    ended = [seq_id for plan in engine.plans for seq_id in plan.ended]
    assert ended == [victim.sequences[0].seq_id]


def test_abort_of_what_has_ended_or_was_never_there_does_nothing() -> None:
    engine = Engine()
    group = engine.add(3)
    engine.run()
    assert engine.scheduler.abort(group.request_id) == []
    assert engine.scheduler.abort("nobody") == []
    assert group.sequences[0].finish is FinishReason.LENGTH


# ---------------------------------------------------------------- what the worker is told


def test_the_worker_is_told_of_a_sequence_once_and_of_its_end_with_the_next_plan() -> None:
    engine = Engine(num_blocks=8, max_num_seqs=3)
    groups = [engine.add(7, max_new=12) for _ in range(3)]
    engine.run()
    assert engine.scheduler.stats.preempted_recompute
    told = [data.seq_id for plan in engine.plans for data in plan.new]
    assert sorted(told) == [0, 1, 2]
    engine.add(3, max_new=1)
    engine.begin()
    ended = [seq_id for plan in engine.plans for seq_id in plan.ended]
    assert sorted(ended) == sorted(group.sequences[0].seq_id for group in groups)
    engine.finish()
    engine.run()


def test_one_plan_in_flight_at_a_time() -> None:
    engine = Engine()
    engine.add(3)
    plan = engine.begin()
    assert plan is not None
    with pytest.raises(RuntimeError, match="in flight"):
        engine.scheduler.schedule()
    with pytest.raises(RuntimeError, match="not in flight"):
        engine.scheduler.update(StepPlan((), (), (), ()), make_result([]))
    with pytest.raises(ValueError, match="2 rows, and its plan has 1"):
        engine.scheduler.update(plan, make_result([(0,) * 4] * 2))
    engine.finish()
    engine.run()
