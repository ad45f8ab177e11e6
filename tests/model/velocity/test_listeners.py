"""Answers that are ahead of their listeners leave steps to those that are not heard yet."""

from __future__ import annotations

from ChatTTS.model.generation import Listener
from ChatTTS.model.velocity.plan import StepPlan
from ChatTTS.model.velocity.sequence import SequenceGroup

from ...support.velocity_tools import Engine
from ...support.waiting import Clock


def counts(engine: Engine, plan: StepPlan, *groups: SequenceGroup) -> list[int]:
    """The number of positions that each group moves in a plan."""
    return [sum(work.count for work in engine.works_on(group, plan)) for group in groups]


def test_an_answer_ahead_of_its_listener_waits_for_those_that_are_not_heard() -> None:
    clock = Clock()
    engine = Engine(clock=clock, holds_back=True)
    ahead = engine.add(2, max_new=40, listener=Listener(2, rate=10.0))
    work = engine.add(2, max_new=40)  # without a listener, so it goes on
    engine.steps(9)  # seven frames more than are needed for a sound: 0.7 s
    new = engine.add(2, max_new=40, listener=Listener(3, rate=10.0))
    moved = [counts(engine, plan, ahead, work, new) for plan in engine.steps(5)]
    assert moved == [[1, 1, 2], [0, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1]]
    engine.run()


def test_an_answer_with_less_than_half_a_second_left_does_not_wait() -> None:
    clock = Clock()
    engine = Engine(clock=clock, holds_back=True)
    playing = engine.add(2, max_new=40, listener=Listener(2, rate=10.0))
    engine.steps(9)
    new = engine.add(2, max_new=40, listener=Listener(4, rate=10.0))
    engine.steps(1)
    moved = []
    for _ in range(3):
        moved += [counts(engine, plan, playing, new) for plan in engine.steps(1)]
        clock.now += 0.2
    assert moved == [[0, 1], [0, 1], [1, 1]]
    engine.run()


def test_what_is_not_waited_for_holds_nothing_back() -> None:
    engine = Engine(clock=Clock(), holds_back=True)
    ahead = engine.add(2, max_new=40, listener=Listener(2, rate=10.0))
    engine.steps(20)
    later = engine.add(2, max_new=40, listener=Listener(30, rate=10.0, waits=False))
    assert [counts(engine, plan, ahead, later) for plan in engine.steps(3)] == [
        [1, 2],
        [1, 1],
        [1, 1],
    ]
    engine.run()


def test_nothing_is_held_back_where_the_engine_does_not_ask_for_it() -> None:
    engine = Engine(clock=Clock())
    ahead = engine.add(2, max_new=40, listener=Listener(2, rate=10.0))
    engine.steps(20)
    engine.add(2, max_new=40, listener=Listener(30, rate=10.0))
    assert all(counts(engine, plan, ahead) == [1] for plan in engine.steps(5))
    engine.run()


def moves_ahead(engine: Engine, *groups: SequenceGroup) -> list[tuple[int, list[int]]]:
    """Run a step; return the steps of each plan made meanwhile, and which groups it moves."""
    known = len(engine.plans)
    engine.steps(1)
    return [(plan.steps, counts(engine, plan, *groups)) for plan in engine.plans[known:]]


def test_of_plans_made_ahead_an_answer_ahead_of_its_listener_misses_eight_steps_of_twelve() -> None:
    engine = Engine(ahead=8, clock=Clock(), holds_back=True)
    playing = engine.add(2, max_new=200, listener=Listener(2, rate=1.0))
    engine.steps(3)
    new = engine.add(2, max_new=200, listener=Listener(60, rate=1.0))
    plans = [plan for _ in range(9) for plan in moves_ahead(engine, playing, new)]
    begun = next(place for place, (_, moved) in enumerate(plans) if moved[1]) + 1
    assert [plan for plan in plans[begun:] if plan[0] > 1][:5] == [
        (8, [0, 1]),
        (4, [1, 1]),
        (8, [0, 1]),
        (4, [1, 1]),
        (8, [0, 1]),
    ]
    engine.run()


def test_a_plan_behind_the_first_frames_of_an_answer_is_short() -> None:
    engine = Engine(ahead=8, clock=Clock(), holds_back=True)
    heard = engine.add(2, max_new=60, listener=Listener(20, rate=1.0))
    plans = [plan for _ in range(7) for plan in moves_ahead(engine, heard)]
    # One frame by the prompt, and 8 and 8 behind it; the plan of the twentieth is followed by a
    # short one.
    assert [steps for steps, _ in plans[:7]] == [1, 8, 8, 8, 2, 8, 8]
    engine.run()
