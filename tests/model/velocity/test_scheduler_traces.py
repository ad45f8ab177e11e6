"""Thousands of random histories of the scheduler, each step checked, each result known."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.model.generation import Listener
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.plan import MoveKind

from ...support.velocity_tools import Engine, FakeModel, make_prompt

FRAMES = ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 1))
LONGEST = 24
quick = settings(deadline=None, derandomize=True, database=None)


@pytest.fixture(autouse=True)
def _no_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Silence the warnings of requests that outgrow their pool: many of these do."""
    caplog.set_level(logging.ERROR)


def ends(key: DrawKey) -> int | None:
    """The index at which a sample ends by itself; ``None`` for a sample that does not."""
    return (None, 0, 3, 7, None, 12)[(key.seed + key.sample) % 6]


def breaks(key: DrawKey, index: int) -> bool:
    """Whether a sample's logits at an index are not finite; seed 6 breaks, early or late."""
    return key.seed == 6 and index == 3 * key.sample


MODEL = FakeModel(ends, breaks)

# ---------------------------------------------------------------- histories that shrink


def engines() -> st.SearchStrategy[dict[str, Any]]:
    """Settings of tiny engines, in which every resource is short."""
    return st.fixed_dictionaries(
        {
            "block_size": st.integers(1, 8),
            "num_blocks": st.integers(8, 12),
            "num_host_blocks": st.sampled_from([0, 1, 3, 30]),
            "enable_prefix_caching": st.booleans(),
            "max_num_batched_tokens": st.integers(1, 20),
            "max_num_seqs": st.integers(1, 6),
            "ahead": st.sampled_from([0, 0, 1, 3]),
            "stages": st.sampled_from([1, 1, 2, 3]),
            "policy": st.sampled_from(["fcfs", "priority"]),
        }
    )


requests = st.fixed_dictionaries(
    {
        "prompt": st.builds(
            make_prompt,
            st.lists(st.integers(0, 1), min_size=1, max_size=5),
            st.lists(st.sampled_from(FRAMES), max_size=3),
            st.sampled_from([None, (1.0,), (2.0,)]),
            st.sampled_from([(), (0,)]),
        ),
        "max_new": st.integers(1, 12),
        "n": st.integers(1, 3),
        "seed": st.integers(0, 6),
        "kind": st.sampled_from(Pass),
        "priority": st.integers(-2, 2),
    }
)
events = st.one_of(
    st.tuples(st.just("add"), requests),
    st.tuples(st.just("step"), st.integers(1, 6)),
    st.tuples(st.sampled_from(["abort", "abort in flight"]), st.integers(0, 9)),
)


def play(engine: Engine, event: str, detail: Any) -> None:
    groups = engine.requests.made
    if event == "add":
        engine.add(**detail)
    elif event == "step":
        for _ in range(detail):
            engine.step()
    elif groups:
        in_flight = event == "abort in flight" and engine.begin() is not None
        engine.abort(groups[detail % len(groups)])
        if in_flight:
            engine.finish()


def longest_wait(engine: Engine) -> int:
    """The most steps that all requests may take, if each step moves one position.

    A position may be computed twice.
    """
    groups = engine.requests.made
    positions = sum(len(group.sequences) * (group.prompt_length + group.limit) for group in groups)
    return 2 * positions + 1


@pytest.mark.parametrize("traces", [100, pytest.param(600, marks=pytest.mark.slow)])
def test_every_request_gives_the_result_that_it_gives_alone(traces: int) -> None:
    @settings(quick, max_examples=traces)
    @given(engines(), st.lists(events, min_size=2, max_size=14))
    def run(arguments: dict[str, Any], history: list[tuple[str, Any]]) -> None:
        engine = Engine(model=MODEL, max_positions=LONGEST, **arguments)
        for event, detail in history:
            play(engine, event, detail)
        engine.run(most=longest_wait(engine))

    run()


# ---------------------------------------------------------------- histories under load


def random_engine(random: Random) -> Engine:
    block_size = random.randint(1, 8)
    return Engine(
        model=MODEL,
        max_positions=LONGEST,
        block_size=block_size,
        num_blocks=-(-random.randint(LONGEST // 2, 2 * LONGEST) // block_size),
        num_host_blocks=random.choice([0, 2, 8, 40]),
        enable_prefix_caching=random.random() < 0.7,
        max_num_batched_tokens=random.randint(1, 24),
        max_num_seqs=random.randint(1, 8),
        ahead=random.choice([0, 0, 1, 4]),
        stages=random.choice([1, 1, 2, 3]),
        holds_back=random.random() < 0.5,
        policy=random.choice(["fcfs", "priority"]),
        ageing=random.choice([0.5, 3.0]),
    )


def random_prompt(random: Random) -> Prompt:
    """Make a prompt; few prompts are distinct, and many share a prefix."""
    text = [1, *random.choices([1, 2], weights=[5, 1], k=random.randint(0, 6))]
    codes = random.choices(FRAMES, weights=[5, 1, 1], k=random.choice([0, 0, 0, 2, 4]))
    speaker = random.choice([None, None, None, (1.0,), (2.0,)])
    return make_prompt(text, codes, speaker, random.choice([(), (), (0,)]))


def random_listener(random: Random) -> Listener | None:
    """Make a listener; a slow one has sound for a long time."""
    if random.random() < 0.4:
        return None
    rate = random.choice([0.01, 0.3, 5.0])
    return Listener(random.randint(0, 6), rate, waits=random.random() < 0.7)


def random_events(random: Random) -> Iterator[tuple[str, Any]]:
    for _ in range(random.randint(3, 9)):
        yield (
            "add",
            {
                "prompt": random_prompt(random),
                "max_new": random.choice([1, 4, 10, 10, 30]),
                "n": random.choice([1, 1, 1, 2, 4]),
                "seed": random.randint(0, 6),
                "kind": random.choice([Pass.CODE, Pass.CODE, Pass.REFINE]),
                "priority": random.randint(-3, 3),
                "listener": random_listener(random),
            },
        )
        yield "step", random.choice([0, 0, 1, 2, 5])
        if random.random() < 0.2:
            yield random.choice(["abort", "abort in flight"]), random.randint(0, 9)


def under_load(seen: Counter[str], seed: int) -> None:
    random = Random(seed)
    engine = random_engine(random)
    for event, detail in random_events(random):
        play(engine, event, detail)
    engine.run(most=longest_wait(engine))
    stats = engine.scheduler.stats
    for name in ("cached_positions", "preempted_recompute", "preempted_swap", "copied_blocks"):
        seen[name] += getattr(stats, name) > 0
    for kind in MoveKind:
        seen[kind.value] += any(move.kind is kind for plan in engine.plans for move in plan.moves)
    seen["errors"] += any(seq.error is not None for seq in engine.ended.values())
    seen["mixed"] += any(len({work.draws for work in plan.work}) == 2 for plan in engine.plans)
    seen["ahead"] += any(plan.steps > 1 for plan in engine.plans)


@pytest.mark.parametrize("traces", [200, pytest.param(2000, marks=pytest.mark.thorough)])
def test_results_hold_under_load_and_every_path_is_taken(traces: int) -> None:
    seen: Counter[str] = Counter()

    @settings(quick, max_examples=traces)
    @given(st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        under_load(seen, seed)

    run()
    few = {name: times for name, times in seen.items() if times < traces // 20}
    assert not few
    assert len(seen) == 10
