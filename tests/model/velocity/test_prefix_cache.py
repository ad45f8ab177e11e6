"""The prefix cache finds a prefix if all of it is equal, and never otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.plan import MoveKind, StepPlan
from ChatTTS.model.velocity.prefix_cache import BlockKey, PrefixCache

from ...support.velocity_tools import Engine, FakeModel, draw, make_prompt

TEXT = (1, 2, 3, 4, 5, 6, 7, 8)
CODES = ((1, 2, 3, 4), (5, 6, 7, 8), (1, 2, 3, 4), (5, 6, 7, 8))


def hits(engine: Engine, prompt: Prompt, **request: Any) -> int:
    """Run one more request; return how many of its positions were in the prefix cache."""
    before = engine.scheduler.stats.cached_positions
    engine.add(prompt, **request)
    engine.run()
    return engine.scheduler.stats.cached_positions - before


def moves(plans: list[StepPlan]) -> list[MoveKind]:
    return [move.kind for plan in plans for move in plan.moves]


@pytest.mark.parametrize("length", range(1, 18))
def test_full_blocks_are_hits_but_for_the_last_position(length: int) -> None:
    engine = Engine(num_blocks=40)
    prompt = make_prompt(range(length))
    assert hits(engine, prompt, max_new=1) == 0
    assert hits(engine, prompt, max_new=1) == (length - 1) // 4 * 4
    plan = engine.plans[-1]
    assert plan.work[0].start == (length - 1) // 4 * 4
    assert plan.work[0].draws


@pytest.mark.parametrize("same", [0, 3, 4, 7, 8, 11])
def test_as_many_blocks_as_begin_alike(same: int) -> None:
    engine = Engine()
    engine.add(make_prompt(range(12)))
    engine.run()
    other = [*range(same), *range(50, 62 - same)]
    assert hits(engine, make_prompt(other)) == same // 4 * 4


def test_a_prefix_cache_that_is_off_finds_nothing() -> None:
    engine = Engine(enable_prefix_caching=False)
    assert [hits(engine, make_prompt(range(12))) for _ in range(2)] == [0, 0]
    assert engine.scheduler.stats.cached_blocks == 0


OTHERS = {
    "another speaker": make_prompt(TEXT, CODES, (2.0,), [0]),
    "no speaker": make_prompt(TEXT, CODES, None, [0]),
    "no place for the speaker": make_prompt(TEXT, CODES, (1.0,)),
    "another place for the speaker": make_prompt(TEXT, CODES, (1.0,), [1]),
    "another text": make_prompt((9, *TEXT[1:]), CODES, (1.0,), [0]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_prompt_is_not_found(name: str) -> None:
    engine = Engine()
    prompt = make_prompt(TEXT, CODES, (1.0,), [0])
    hits(engine, prompt)
    assert hits(engine, OTHERS[name]) == 0
    assert hits(engine, prompt) == 8


@pytest.mark.parametrize("codebook", range(4))
def test_all_codebooks_of_a_frame_count(codebook: int) -> None:
    engine = Engine()
    hits(engine, make_prompt(TEXT, CODES))
    frame = list(CODES[0])
    frame[codebook] += 1
    assert hits(engine, make_prompt([*TEXT, 1], [tuple(frame), *CODES[1:]])) == 8
    assert hits(engine, make_prompt(TEXT, [tuple(frame), *CODES[1:], CODES[0]])) == 8
    assert hits(engine, make_prompt(TEXT, [*CODES, CODES[0]])) == 12


def test_the_same_numbers_as_text_and_as_codes_are_two_things() -> None:
    engine = Engine(block_size=1)
    hits(engine, make_prompt([7, 7, 7]))
    assert hits(engine, make_prompt([7], [(7, 7, 7, 7)] * 2)) == 1


def test_keys_that_hash_alike_are_still_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockKey, "__hash__", lambda key: 0)
    assert hash(BlockKey(b"", (1,))) == hash(BlockKey(b"x", (2,)))
    engine = Engine()
    prompt = make_prompt(TEXT, CODES, (1.0,), [0])
    hits(engine, prompt)
    assert [hits(engine, other) for other in OTHERS.values()] == [0] * len(OTHERS)
    assert hits(engine, prompt) == 8


def test_an_identity_is_never_given_twice() -> None:
    cache = PrefixCache()
    head = cache.remember(BlockKey(b"", (1,)))
    cache.remember(BlockKey(head.identity, (2,)))
    cache.forget(head)
    again = cache.remember(BlockKey(b"", (1,)))
    assert cache.find(BlockKey(again.identity, (2,))) is None


def test_what_is_not_computed_yet_is_not_found() -> None:
    engine = Engine(max_num_batched_tokens=16)
    prompt = make_prompt(range(12))
    engine.add(prompt)
    engine.begin()
    second = engine.requests.make(prompt, seed=1)
    engine.scheduler.add(second)
    third = engine.requests.make(prompt, seed=2)
    engine.scheduler.add(third)
    engine.finish()
    plan = engine.begin()
    assert plan is not None
    assert [work.start for work in plan.work] == [12, 8, 8]
    engine.finish()
    engine.run()


def test_two_that_compute_the_same_at_once_keep_it_once() -> None:
    engine = Engine(num_blocks=16)
    prompt = make_prompt(range(10))
    groups = [engine.add(prompt, seed=seed, max_new=2) for seed in range(3)]
    engine.begin()
    assert engine.scheduler.stats.used_blocks == 9
    engine.finish()
    assert engine.scheduler.stats.used_blocks == 5
    tables = {tuple(group.sequences[0].block_table[:2]) for group in groups}
    assert len(tables) == 1
    engine.run()


def test_generated_frames_are_remembered_too() -> None:
    engine = Engine()
    prompt = make_prompt(range(6))
    engine.add(prompt, max_new=11)
    engine.run()
    frames = [draw(DrawKey(0, Pass.CODE), index) for index in range(11)]
    assert hits(engine, make_prompt(range(6), frames)) == 16


def test_a_refined_text_is_text() -> None:
    engine = Engine(model=FakeModel())
    engine.add(make_prompt(range(6)), max_new=9, kind=Pass.REFINE)
    engine.run()
    ids = [draw(DrawKey(0, Pass.REFINE), index)[0] for index in range(9)]
    assert hits(engine, make_prompt([*range(6), *ids])) == 12


def test_tails_are_evicted_before_heads() -> None:
    engine = Engine(num_blocks=5)
    prompt = make_prompt(range(13))
    engine.add(prompt, max_new=1)
    engine.run()
    engine.add(11, max_new=1)  # three blocks: one was never used, one is not cached
    engine.run()
    assert hits(engine, prompt) == 8


def test_a_prefix_that_was_touched_stays() -> None:
    engine = Engine(num_blocks=6)
    first, second = make_prompt(range(10, 19)), make_prompt(range(20, 29))
    for prompt in (first, second, first):
        engine.add(prompt, max_new=1)
        engine.run()
    engine.add(14, max_new=1)  # four blocks: two are free
    engine.run()
    assert hits(engine, first, max_new=1) == 8
    assert hits(engine, second, max_new=1) == 0


def test_what_is_evicted_goes_to_the_host_and_comes_back() -> None:
    engine = Engine(num_blocks=4, num_host_blocks=4)
    prompt = make_prompt(range(13))
    engine.add(prompt, max_new=1)
    engine.run()
    assert moves(engine.plans) == []
    engine.add(15, max_new=1)
    engine.run()
    assert moves(engine.plans) == [MoveKind.OUT] * 3
    del engine.plans[:]
    assert hits(engine, prompt, max_new=1) == 12
    assert moves(engine.plans).count(MoveKind.IN) == 3


def test_the_oldest_in_the_host_makes_room() -> None:
    engine = Engine(num_blocks=3, num_host_blocks=2)
    prompts = [make_prompt(range(start, start + 9)) for start in (10, 20, 30)]
    for prompt in prompts:
        engine.add(prompt, max_new=1)
        engine.run()
    assert hits(engine, prompts[1], max_new=1) == 8
    assert hits(engine, prompts[0], max_new=1) == 0


def test_blocks_of_a_sequence_with_broken_logits_are_not_found() -> None:
    engine = Engine(model=FakeModel(breaks=lambda key, index: key.seed == 1 and index == 0))
    prompt = make_prompt(range(10))
    engine.add(prompt, seed=1)
    engine.run()
    assert engine.scheduler.stats.cached_blocks == 0
    assert hits(engine, prompt, seed=2) == 0


def test_earlier_blocks_of_a_sequence_with_broken_logits_are_not_found() -> None:
    engine = Engine(
        model=FakeModel(breaks=lambda key, index: key.seed == 1 and index == 5),
        max_num_batched_tokens=4,
        num_host_blocks=8,
    )
    prompt = make_prompt(range(10))
    engine.add(prompt, seed=1, max_new=9)
    engine.run()
    assert engine.scheduler.stats.cached_blocks == 0
    assert len(engine.scheduler._blocks.prefixes) == 0


def test_what_others_hold_stays_known() -> None:
    engine = Engine(model=FakeModel(breaks=lambda key, index: key.seed == 1 and index == 1))
    prompt = make_prompt(range(10))
    engine.add(prompt, seed=0, max_new=9)
    engine.step()
    engine.add(prompt, seed=1)
    engine.run()
    assert hits(engine, prompt, seed=2) == 8
