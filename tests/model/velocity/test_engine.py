"""The engine, step by step: its requests, its outputs, and how requests end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.errors import (
    ChatTTSError,
    ConfigError,
    EngineDeadError,
    GenerationError,
    TextError,
    VoiceError,
)
from ChatTTS.model.generation import FinishReason, GenerationRequest
from ChatTTS.model.merge_deltas import merge_deltas
from ChatTTS.model.random_numbers import Pass
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.block_pool import BlockPool
from ChatTTS.model.velocity.configs import CacheConfig, EngineArgs
from ChatTTS.model.velocity.llm_engine import LLMEngine
from ChatTTS.model.velocity.output import RequestOutput

from ...support.velocity_fakes import (
    CODES,
    HIDDEN,
    NUM_CODEBOOKS,
    POSITIONS,
    TEXT_TOKENS,
    FakeExecutor,
    Joined,
    endless,
    expected,
    logprob_of,
    make_engine,
    make_prompt,
    make_request,
    run_all,
)


def is_idle(engine: LLMEngine) -> bool:
    """Return whether nothing is left of any request."""
    metrics = engine.metrics()
    return (metrics.running, metrics.waiting, metrics.swapped, metrics.used_blocks) == (0, 0, 0, 0)


def aborted(engine: LLMEngine, request: GenerationRequest) -> RequestOutput:
    """Abort an unfinished request; return its last output."""
    output = engine.abort_request(request.request_id)
    assert output is not None
    return output


# ---------------------------------------------------------------- results


def test_each_request_gives_what_it_gives_alone() -> None:
    engine, _ = make_engine()
    requests = [make_request(seed) for seed in range(8)]
    requests += [make_request(seed, kind=Pass.REFINE) for seed in range(4)]
    requests += [make_request(20, max_new=1), make_request(21, min_new=40)]
    requests += [make_request(22, n=3), make_request(23, length=100)]
    engine.add(requests)
    joined = run_all(engine)
    for request in requests:
        joined.check(request)
    assert is_idle(engine)


@pytest.mark.parametrize(
    ("scheduler", "executor"),
    [
        ({"max_num_batched_tokens": 3, "max_num_seqs": 2}, {}),
        ({}, {"blocks": 14}),
        ({}, {"blocks": 14, "host_blocks": 40}),
        ({"policy": "priority"}, {}),
    ],
    ids=["small budget", "recompute", "swap", "priority"],
)
def test_the_way_of_scheduling_does_not_show(
    scheduler: dict[str, Any], executor: dict[str, Any]
) -> None:
    engine, _ = make_engine(FakeExecutor(**executor), **scheduler)
    requests = [make_request(seed, n=1 + seed % 2, priority=-seed) for seed in range(10)]
    engine.add(requests)
    joined = run_all(engine)
    for request in requests:
        joined.check(request)
    metrics = engine.metrics()
    assert (metrics.preempted_recompute + metrics.preempted_swap > 0) == ("blocks" in executor)
    assert (metrics.preempted_swap > 0) == ("host_blocks" in executor)
    assert is_idle(engine)


def test_deltas_do_not_hold_on_to_the_step() -> None:
    engine, _ = make_engine()
    engine.add([make_request(seed) for seed in range(4)])
    for output in engine.step():
        (delta,) = output.deltas
        assert delta.ids.untyped_storage().nbytes() == delta.ids.nbytes
        assert delta.hiddens.untyped_storage().nbytes() == delta.hiddens.nbytes


def test_the_best_sample_comes_alone_and_whole() -> None:
    engine, _ = make_engine()
    request = make_request(5, n=6, best=True)
    engine.add([request, other := make_request(6)])
    outputs = []
    joined = Joined()
    while engine.has_unfinished_requests():
        step = engine.step()
        joined.take(step)
        outputs += [output for output in step if output.request_id == request.request_id]
    joined.check(other)
    (output,) = outputs
    (delta,) = output.deltas
    assert output.finished

    def mean(sample: int) -> float:
        key = replace(request.key, sample=sample)
        count = len(expected(key, request.sampling)[0])
        return sum(logprob_of(key, i) for i in range(count)) / count

    best = max(range(6), key=mean)
    assert best != 0, "choose another seed: the first sample would win by chance"
    ids, finish = expected(replace(request.key, sample=best), request.sampling)
    assert (delta.index, delta.ids.tolist(), delta.finish) == (best, ids, finish)
    assert delta.logprob / len(delta.ids) == pytest.approx(mean(best))
    assert is_idle(engine)


def test_an_answer_is_cut_at_the_models_end(caplog: pytest.LogCaptureFixture) -> None:
    engine, _ = make_engine()
    request = endless(length=POSITIONS - 50)
    engine.add([request, short := make_request(1, max_new=2)])
    joined = run_all(engine)
    assert len(joined.ids(request)) == 50
    assert joined.finish(request) is FinishReason.LENGTH
    assert joined.finish(short) is FinishReason.LENGTH
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert "end of the model's positions" in warnings[0]
    assert request.request_id in warnings[0]


# ---------------------------------------------------------------- what is refused


def altered(**changes: Any) -> Prompt:
    return replace(make_prompt(), **changes)


NO_CODES = np.zeros((0, 0), dtype=np.int64)
FRAMES = np.zeros((5, NUM_CODEBOOKS), dtype=np.int64)
TEXT = make_prompt().text


@pytest.mark.parametrize(
    ("prompt", "error", "message"),
    [
        (make_prompt(0), TextError, "empty"),
        (make_prompt(POSITIONS), TextError, f"{POSITIONS} positions and the model {POSITIONS}"),
        (make_prompt(POSITIONS), TextError, f"{POSITIONS} positions .* shorten"),
        (altered(text=np.where(TEXT == 22, TEXT_TOKENS, TEXT)), TextError, "unknown token 500"),
        (altered(text=np.where(TEXT == 22, -1, TEXT)), TextError, "unknown token -1"),
        (altered(text=TEXT + 0.5), TextError, "unknown token 20.5"),
        (altered(text=TEXT[None], speaker_slots=TEXT[None] < 0), TextError, "one row"),
        (altered(codes=FRAMES[:, :3]), VoiceError, r"\(5, 3\).*\(frames, 4\)"),
        (altered(codes=FRAMES + CODES - 1), VoiceError, "unknown code 99"),
        (altered(codes=FRAMES - 1), VoiceError, "unknown code -1"),
        (altered(speaker=np.zeros(3, dtype=np.float32)), VoiceError, "another model"),
        (altered(speaker=np.full(HIDDEN, np.nan, dtype=np.float32)), VoiceError, "not finite"),
        (altered(speaker_slots=np.zeros(3, dtype=np.bool_)), VoiceError, "speaker_slots"),
    ],
)
def test_prompts_that_do_not_fit(prompt: Prompt, error: type[ChatTTSError], message: str) -> None:
    engine, _ = make_engine()
    good = make_request()
    with pytest.raises(error, match=message):
        engine.add([good, replace(make_request(), prompt=prompt)])
    assert not engine.has_unfinished_requests()
    assert is_idle(engine)
    engine.add([good])  # no request was accepted
    run_all(engine).check(good)


def test_prompts_at_the_limits_fit() -> None:
    engine, _ = make_engine()
    longest = make_request(length=POSITIONS - 1, max_new=1)
    speaker = np.ones(HIDDEN, dtype=np.float32)
    prompt = altered(
        text=np.where(TEXT == 22, TEXT_TOKENS - 1, TEXT), codes=FRAMES + CODES - 2, speaker=speaker
    )
    voiced = replace(make_request(1), prompt=prompt)
    engine.add([longest, voiced])
    joined = run_all(engine)
    joined.check(longest)
    joined.check(voiced)


def test_settings_that_do_not_fit() -> None:
    engine, _ = make_engine()
    request = make_request()
    with pytest.raises(ConfigError, match="1 values; this pass draws 4"):
        engine.add([replace(request, sampling=replace(request.sampling, temperature=(1.0,)))])
    with pytest.raises(ConfigError, match="4 values; this pass draws 1"):
        engine.add([replace(request, key=replace(request.key, kind=Pass.REFINE))])
    many = replace(request.sampling, n=2)
    with pytest.raises(ConfigError, match="another seed"):
        engine.add([replace(request, sampling=many, key=replace(request.key, sample=2**16 - 1))])
    with pytest.raises(ConfigError, match="priority"):
        engine.add([replace(request, priority=float("nan"))])
    assert is_idle(engine)


@pytest.mark.parametrize("name", ["top_k", "min_new", "max_new", "n"])
def test_counts_are_whole_numbers(name: str) -> None:
    changes: dict[str, Any] = {name: 5.5}
    with pytest.raises(ConfigError, match=f"{name} must be a whole number, not 5.5"):
        replace(make_request(1).sampling, **changes)


def test_a_request_id_is_taken_until_its_request_ends() -> None:
    engine, _ = make_engine()
    request = make_request()
    with pytest.raises(ConfigError, match=request.request_id):
        engine.add([request, request])
    assert not engine.has_unfinished_requests()
    engine.add([request])
    engine.step()
    with pytest.raises(ConfigError, match=request.request_id):
        engine.add_request(request.request_id, request.prompt, request.sampling, request.key)
    run_all(engine)
    engine.add([request])
    run_all(engine).check(request)


def test_a_prompt_beyond_the_pool_is_refused_with_all_requests_of_its_call() -> None:
    engine, _ = make_engine(FakeExecutor(blocks=10))
    good = make_request()
    says = "41 positions and the KV cache 40: raise kv_memory"
    with pytest.raises(GenerationError, match=says):
        engine.add([good, make_request(length=41)])
    assert not engine.has_unfinished_requests()
    engine.add([good])
    run_all(engine).check(good)


# ---------------------------------------------------------------- requests that end otherwise


def test_an_error_ends_one_request() -> None:
    engine, executor = make_engine()
    executor.bad_seeds = {2}
    bad, good = make_request(2, n=3, min_new=50), make_request(1)
    engine.add([bad, good])
    joined = Joined()
    while not joined.errors:
        joined.take(engine.step())
    assert engine.metrics().running == 1  # the request's other samples ended with it
    run_all(engine, joined).check(good)
    assert list(joined.errors) == [bad.request_id]
    assert "not finite" in joined.errors[bad.request_id]
    assert engine.metrics().requests_failed == 1
    assert is_idle(engine)


@pytest.mark.parametrize("best", [False, True])
def test_abort_between_steps(best: bool) -> None:
    engine, executor = make_engine(max_num_seqs=3)
    running = make_request(1, n=2, min_new=50, best=best)
    waiting, other = make_request(2), make_request(3)
    engine.add([running, other, waiting])
    joined = Joined()
    for _ in range(4):
        joined.take(engine.step())
    assert engine.metrics().waiting == 1
    for request in (running, waiting):
        joined.take([aborted(engine, request)])
        assert engine.abort_request(request.request_id) is None
    run_all(engine, joined)
    joined.check(other)
    assert joined.finish(running) is joined.finish(waiting) is FinishReason.ABORT
    assert ((running.request_id, 1) in joined.samples) == (not best)
    assert engine.metrics().requests_aborted == 2
    assert is_idle(engine)
    engine.add([again := make_request(4)])
    run_all(engine).check(again)
    assert set(executor.known) <= {again.request_id} | set(range(100))
    assert len(executor.known) == 1  # the worker was told of all that ended before


def test_abort_while_a_step_runs() -> None:
    engine, executor = make_engine()
    gone, other = make_request(1, n=2, min_new=50), make_request(2)
    engine.add([gone, other])
    joined = Joined()
    joined.take(engine.step())
    executor.on_step = lambda: joined.take(
        [output] if (output := engine.abort_request(gone.request_id)) else []
    )
    run_all(engine, joined)
    assert joined.finish(gone, 0) is joined.finish(gone, 1) is FinishReason.ABORT
    joined.check(other)
    assert is_idle(engine)


def test_a_request_that_comes_while_a_step_runs() -> None:
    engine, executor = make_engine()
    first, second = make_request(1), make_request(2)
    engine.add([first])

    def add() -> None:
        executor.on_step = None
        engine.add([second])

    executor.on_step = add
    joined = run_all(engine)
    joined.check(first)
    joined.check(second)


def test_abort_of_a_request_that_is_swapped_out() -> None:
    engine, _ = make_engine(FakeExecutor(blocks=14, host_blocks=40))
    requests = [make_request(seed, min_new=30) for seed in range(4)]
    engine.add(requests)
    joined = Joined()
    for _ in range(1000):
        joined.take(engine.step())
        if engine.metrics().swapped:
            break
    assert engine.metrics().swapped
    for request in requests[1:]:  # the first request is never preempted
        joined.take([aborted(engine, request)])
    assert engine.metrics().swapped == 0
    run_all(engine, joined).check(requests[0])
    assert is_idle(engine)


def test_an_error_of_the_worker_ends_the_engine() -> None:
    engine, executor = make_engine()
    engine.add([make_request(1), make_request(2)])
    engine.step()
    executor.broken = MemoryError("no memory is left")
    with pytest.raises(MemoryError):
        engine.step()
    assert not engine.has_unfinished_requests()
    assert is_idle(engine)
    for refused in (engine.step, lambda: engine.add([make_request()])):
        with pytest.raises(EngineDeadError, match="no memory is left"):
            refused()
    metrics = engine.metrics()
    engine.close()
    assert executor.is_closed
    assert engine.metrics() == metrics
    assert metrics.requests_failed == 2
    assert metrics.requests_aborted == 0
    assert metrics.steps == 1
    assert metrics.prompt_positions == 20
    assert metrics.generated_tokens == 2


def test_an_engine_that_does_not_start_closes_its_executor() -> None:
    """The model is loaded, and the allocation of its cache is interrupted."""
    executor = FakeExecutor()

    def interrupted() -> CacheConfig:
        raise KeyboardInterrupt

    executor.init_cache = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        LLMEngine(EngineArgs(model="none").create_engine_config(), executor)
    assert executor.is_closed


def test_a_closed_engine_refuses() -> None:
    engine, executor = make_engine()
    engine.add([make_request()])
    engine.close()
    engine.close()
    assert executor.is_closed
    with pytest.raises(EngineDeadError, match="closed"):
        engine.add([make_request()])


def test_a_reset_forgets_everything_also_at_the_worker() -> None:
    engine, executor = make_engine()
    engine.add([make_request(seed, n=2) for seed in range(3)])
    engine.step()
    engine.step()
    before = set(executor.known)
    assert len(before) == 6
    engine.reset()
    assert not engine.has_unfinished_requests()
    assert engine.step() == []
    assert is_idle(engine)
    before_reset = engine.metrics()
    engine.add([request := make_request(9)])
    run_all(engine).check(request)
    assert before.isdisjoint(executor.known)
    assert before_reset.requests_aborted == 3
    assert engine.metrics().requests_aborted == 3
    assert engine.metrics().prompt_positions == before_reset.prompt_positions + 10
    engine.after_fork()
    assert engine.metrics() == make_engine()[0].metrics()


# ---------------------------------------------------------------- counts


def test_metrics() -> None:
    engine, executor = make_engine()
    requests = [make_request(1, length=11), make_request(2, max_new=2, length=6)]
    engine.add(requests)
    joined = run_all(engine)
    metrics = engine.metrics()
    assert metrics.requests_stopped == metrics.requests_at_limit == 1
    assert metrics.prompt_positions == 17
    assert metrics.generated_tokens == sum(len(joined.ids(request)) for request in requests)
    assert metrics.steps == executor.steps
    assert metrics.model_seconds > 0 < metrics.engine_seconds
    assert metrics.blocks == 10_000
    assert metrics.cached_positions == 0
    engine.add([again := replace(requests[0], request_id="again")])
    run_all(engine).check(again)
    metrics = engine.metrics()
    assert metrics.cached_positions == 8
    assert metrics.prompt_positions == 17 + 3
    assert metrics.requests_stopped == 2


@pytest.mark.parametrize("depth", [1, 2])
def test_a_step_that_only_began_costs_the_host(monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    """Where the device works by itself, the time of giving it a plan is the engine's own."""
    seconds = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    engine, executor = make_engine()
    executor.depth = depth
    executor.on_step = lambda: seconds.append(seconds.pop() + 1.0)
    engine.add([make_request(1)])
    run_all(engine)
    metrics = engine.metrics()
    spent = (metrics.model_seconds, metrics.engine_seconds)
    assert spent == ((executor.steps, 0) if depth == 1 else (0, executor.steps))


def test_joining_keeps_order_and_the_end() -> None:
    engine, _ = make_engine()
    engine.add([request := make_request(3)])
    deltas = []
    while engine.has_unfinished_requests():
        deltas += [delta for output in engine.step() for delta in output.deltas]
    whole = merge_deltas(deltas)
    ids, finish = expected(request.key, request.sampling)
    assert (whole.ids.tolist(), whole.finish) == (ids, finish)
    assert whole.hiddens.dtype is torch.float32
    assert whole.hiddens[:, 1].tolist() == list(range(len(ids)))
    assert whole.logprob == deltas[-1].logprob < deltas[0].logprob


def test_a_block_that_stays_with_no_request_is_told_and_free_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release, kept = BlockPool.release, list[int]()

    def forgetful(pool: BlockPool, block: int) -> None:
        release(pool, block) if kept else kept.append(block)

    engine, _ = make_engine()
    monkeypatch.setattr(BlockPool, "release", forgetful)
    for seed, told in ((0, 1), (1, 1)):
        engine.add([request := make_request(seed)])
        run_all(engine).check(request)
        assert is_idle(engine)
        assert [record.levelname for record in caplog.records] == ["ERROR"] * told
    assert "1 blocks of the KV cache" in caplog.text
    assert engine.metrics().requests_stopped + engine.metrics().requests_at_limit == 2
