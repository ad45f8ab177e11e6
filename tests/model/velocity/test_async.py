"""One engine with many callers: no caller waits for another one, and none waits forever."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pytest

from ChatTTS.errors import ConfigError, EngineDeadError, GenerationError, TextError
from ChatTTS.model.generation import Cancellation, FinishReason, GenerationRequest
from ChatTTS.model.velocity.async_llm_engine import AsyncLLMEngine

from ...support.velocity_fakes import (
    POSITIONS,
    Joined,
    endless,
    engine_threads,
    in_thread,
    make_async,
    make_prompt,
    make_request,
)
from ...support.waiting import SECONDS, wait_until

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run like ``asyncio.run``, with a limit on the time."""
    return asyncio.run(asyncio.wait_for(work, SECONDS))


def stream(
    engine: AsyncLLMEngine, *requests: GenerationRequest, cancelled: Cancellation | None = None
) -> Joined:
    joined = Joined()
    for outputs in engine.stream(requests, cancelled):
        joined.take(outputs)
    return joined


async def generate(engine: AsyncLLMEngine, request: GenerationRequest) -> Joined:
    joined = Joined()
    async for output in engine.generate(
        request.prompt, request.sampling, request.key, request_id=request.request_id
    ):
        joined.take([output])
    return joined


def assert_idle(engine: AsyncLLMEngine) -> None:
    """Check that nothing is left of any request, and that no engine thread runs."""
    wait_until(lambda: not engine_threads())
    metrics = engine.metrics()
    assert (metrics.running, metrics.waiting, metrics.used_blocks) == (0, 0, 0)
    assert not engine._tracker.unfinished()


# ---------------------------------------------------------------- asyncio


def test_a_hundred_at_once_of_which_some_are_cancelled() -> None:
    engine, executor = make_async()
    requests = [make_request(seed, n=1 + seed % 2, min_new=10) for seed in range(100)]

    async def leave(request: GenerationRequest, how: str) -> None:
        outputs = engine.generate(request.prompt, request.sampling, request.key)
        count = 0
        async for _ in outputs:
            count += 1
            if count == 1 + request.key.seed % 7:
                break
        if how == "aclose":
            await outputs.aclose()

    async def main() -> list[Joined | BaseException]:
        tasks = [asyncio.create_task(generate(engine, request)) for request in requests]
        leavers = [
            asyncio.create_task(leave(endless(seed), how))
            for seed in range(10)
            for how in ("aclose", "break")
        ]
        await asyncio.sleep(0.01)
        for task in tasks[::10]:
            task.cancel()
        await asyncio.gather(*leavers)
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in done[::10])
        return [one for index, one in enumerate(done) if index % 10]

    joined = run(main())
    for one, request in zip(joined, (r for i, r in enumerate(requests) if i % 10), strict=True):
        assert isinstance(one, Joined)
        one.check(request)
    assert_idle(engine)
    assert executor.steps < 1000  # one after another they would take some 2000


def test_leaving_ends_the_request_within_a_step() -> None:
    engine, executor = make_async()

    async def main() -> int:
        request = endless()
        outputs = engine.generate(request.prompt, request.sampling, request.key)
        await outputs.__anext__()
        await asyncio.to_thread(executor.hold)
        await outputs.aclose()
        steps = executor.steps
        executor.let_go()
        return steps

    steps = run(main())
    assert_idle(engine)
    assert executor.steps == steps
    assert engine.metrics().requests_aborted == 1


def test_a_loop_that_ended_takes_its_requests_along() -> None:
    engine, _ = make_async()
    request = endless()
    left = []

    async def main() -> None:
        outputs = engine.generate(request.prompt, request.sampling, request.key)
        left.append(outputs)
        await outputs.__anext__()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())  # and the generators are never shut down
    loop.close()
    assert_idle(engine)
    assert engine.metrics().requests_aborted == 1


def test_a_slow_reader_blocks_no_other_reader() -> None:
    engine, _ = make_async()
    slow, quick = make_request(1, min_new=100, max_new=100), make_request(2)
    threaded = make_request(3, min_new=100, max_new=100)

    async def main() -> Joined:
        outputs = engine.generate(slow.prompt, slow.sampling, slow.key, request_id=slow.request_id)
        joined = Joined()
        joined.take([await outputs.__anext__()])
        (await generate(engine, quick)).check(quick)
        await asyncio.to_thread(wait_until, lambda: not engine_threads())  # all is computed
        async for output in outputs:
            joined.take([output])
        return joined

    steps = engine.stream([threaded])
    first = next(steps)
    run(main()).check(slow)
    joined = Joined()
    joined.take(first)
    for outputs in steps:
        joined.take(outputs)
    joined.check(threaded)
    assert_idle(engine)


def test_an_unusable_answer_is_one_callers_error() -> None:
    engine, executor = make_async()
    executor.bad_seeds = {1}
    bad, good = make_request(1, min_new=5), make_request(2, min_new=10)

    async def main() -> None:
        failed, joined = await asyncio.gather(
            generate(engine, bad), generate(engine, good), return_exceptions=True
        )
        assert isinstance(failed, GenerationError)
        assert "not finite" in str(failed)
        assert isinstance(joined, Joined)
        joined.check(good)
        with pytest.raises(TextError, match="empty"):
            await generate(engine, replace(good, prompt=make_prompt(0)))

    run(main())
    joined = stream(engine, bad, good)
    joined.check(good)
    assert list(joined.errors) == [bad.request_id]
    assert_idle(engine)


# ---------------------------------------------------------------- threads


def test_many_threads_share_the_batch() -> None:
    engine, executor = make_async()
    calls = [[make_request(10 * i + j, min_new=30) for j in range(2)] for i in range(8)]
    waits = [in_thread(partial(stream, engine, *call)) for call in calls]
    for wait, call in zip(waits, calls, strict=True):
        joined = wait()
        for request in call:
            joined.check(request)
    longest = 32
    assert executor.steps < 4 * longest
    assert_idle(engine)


def test_a_call_gets_one_item_for_each_step() -> None:
    engine, executor = make_async()
    requests = [make_request(seed, min_new=5, max_new=5) for seed in range(4)]
    items = list(engine.stream(requests))
    assert [len(item) for item in items] == [4] * 5
    assert executor.steps == 5


def test_requests_are_taken_all_or_none() -> None:
    engine, executor = make_async()
    good = make_request()
    for bad, error in ((make_request(length=POSITIONS), TextError), (good, ConfigError)):
        with pytest.raises(error):
            next(engine.stream([good, bad]))
    # What does not fit is an error of the call, before the first item is asked for.
    for call in (
        lambda: engine.stream([good, make_request(length=POSITIONS)]),
        lambda: engine.generate(make_prompt(0), good.sampling, good.key),
    ):
        with pytest.raises(TextError):
            call()
    engine.stream([good])  # and what was never asked for is never begun
    assert executor.steps == 0
    assert_idle(engine)
    stream(engine, good).check(good)
    assert list(engine.stream([])) == []


def test_cancelling_ends_a_call_within_a_step() -> None:
    engine, executor = make_async(max_num_seqs=1)
    running, waiting = endless(1), endless(2)
    cancelled = Cancellation()
    items = engine.stream([running, waiting], cancelled)
    for _ in range(5):
        next(items)
    executor.hold()
    assert engine.metrics().waiting == 1
    cancelled.set()
    steps = executor.steps
    last = next(items)  # although the step still runs, and other items are unread
    assert [output.request_id for output in last] == [running.request_id, waiting.request_id]
    for output in last:
        (delta,) = output.deltas
        assert (output.finished, len(delta.ids), delta.finish) == (True, 0, FinishReason.ABORT)
    with pytest.raises(StopIteration):
        next(items)
    executor.let_go()
    assert_idle(engine)
    assert executor.steps == steps
    assert engine.metrics().requests_aborted == 2


def test_cancelling_wakes_a_waiting_caller() -> None:
    engine, _ = make_async(max_num_seqs=1)
    blocking, cancelled = endless(1), Cancellation()
    others = engine.stream([blocking])
    next(others)
    request = endless(2)
    wait = in_thread(lambda: stream(engine, request, cancelled=cancelled))
    wait_until(lambda: engine.metrics().waiting == 1)
    cancelled.set()
    joined = wait()
    assert joined.finish(request) is FinishReason.ABORT
    next(others)  # goes on
    others.close()
    assert_idle(engine)


def test_cancelling_names_only_the_samples_that_still_run() -> None:
    engine, executor = make_async()
    request, best = make_request(1, n=4), make_request(1, n=4, best=True)
    cancelled = Cancellation()
    joined = Joined()
    for outputs in engine.stream([request, best], cancelled):
        joined.take(outputs)
        if any(delta.finish for output in outputs for delta in output.deltas):
            cancelled.set()
    assert executor.steps > 3
    ends = [joined.finish(request, sample) for sample in range(4)]
    assert FinishReason.ABORT in ends
    assert FinishReason.STOP in ends
    assert joined.finish(best) is FinishReason.ABORT
    assert joined.finished == {request.request_id, best.request_id}
    assert_idle(engine)


@pytest.mark.parametrize("how", ["close", "forget", "raise"])
def test_requests_of_a_caller_that_left_are_not_computed(how: str) -> None:
    engine, executor = make_async()
    other = make_request(1, min_new=60, max_new=60)
    wait = in_thread(lambda: stream(engine, other))
    items = engine.stream([endless(2), endless(3)])
    next(items)
    executor.hold()
    if how == "close":
        items.close()
    elif how == "raise":
        with pytest.raises(KeyboardInterrupt):
            items.throw(KeyboardInterrupt())
    else:
        del items
        gc.collect()
    seen: list[int] = []
    executor.on_step = lambda: seen.append(engine.engine.metrics().running)
    executor.let_go()
    wait().check(other)
    assert max(seen) == 1
    assert_idle(engine)


def test_abort_by_name() -> None:
    engine, executor = make_async()
    request = endless()
    wait = in_thread(lambda: stream(engine, request))
    wait_until(lambda: executor.steps > 3)
    engine.abort("nobody")
    engine.abort(request.request_id)
    joined = wait()
    assert joined.finish(request) is FinishReason.ABORT
    assert_idle(engine)


def test_to_abort_an_unknown_name_ends_no_later_request() -> None:
    engine, executor = make_async()
    other, late = endless(), make_request(1)
    wait_for_other = in_thread(lambda: stream(engine, other))
    executor.hold()
    engine.abort(late.request_id)
    wait = in_thread(lambda: stream(engine, late))
    wait_until(lambda: engine.metrics().waiting == 1)
    with pytest.raises(ConfigError, match=late.request_id):  # although the loop has not added it
        stream(engine, late)
    executor.let_go()
    wait().check(late)
    engine.abort(other.request_id)
    assert wait_for_other().finish(other) is FinishReason.ABORT
    assert_idle(engine)


def test_a_name_is_taken_until_its_request_ends() -> None:
    engine, _ = make_async()
    request = make_request(min_new=50)
    items = engine.stream([request])
    joined = Joined()
    joined.take(next(items))
    with pytest.raises(ConfigError, match=request.request_id):
        stream(engine, request)
    for outputs in items:
        joined.take(outputs)
    joined.check(request)
    assert_idle(engine)


# ---------------------------------------------------------------- the engine's own life


def test_an_idle_engine_has_no_thread() -> None:
    engine, _ = make_async()
    assert not engine_threads()
    for seed in range(3):
        items = engine.stream([endless(seed)])
        next(items)
        assert len(engine_threads()) == 1
        items.close()
        request = make_request(seed)
        stream(engine, request).check(request)
        assert_idle(engine)


def test_an_error_of_the_worker_reaches_every_caller() -> None:
    engine, executor = make_async(max_num_seqs=2)
    waits = [in_thread(partial(stream, engine, endless(seed))) for seed in range(3)]
    wait_until(lambda: engine.metrics().running == 2 and engine.metrics().waiting == 1)

    async def main() -> None:
        task = asyncio.create_task(generate(engine, endless(9)))
        await asyncio.to_thread(wait_until, lambda: engine.metrics().waiting == 2)
        executor.broken = SystemError("the device is gone")
        await task

    errors: list[BaseException] = []
    for wait in (lambda: run(main()), *waits):
        with pytest.raises(EngineDeadError, match="the device is gone") as caught:
            wait()
        assert isinstance(caught.value.__cause__, SystemError)
        errors.append(caught.value)
    assert len(set(map(id, errors))) == 4
    assert_idle(engine)
    executor.broken = None
    with pytest.raises(EngineDeadError, match="the device is gone"):
        stream(engine, make_request())
    engine.close()


def test_requests_count_as_failed_also_before_the_engine_has_them() -> None:
    engine, executor = make_async()
    waits = [in_thread(partial(stream, engine, endless(0)))]
    executor.hold()
    waits.append(in_thread(partial(stream, engine, endless(1))))
    wait_until(lambda: engine.metrics().waiting == 1)
    executor.broken = SystemError("the device is gone")
    executor.let_go()
    for wait in waits:
        with pytest.raises(EngineDeadError, match="the device is gone"):
            wait()
    assert engine.metrics().requests_failed == 2
    engine.close()


def test_closing_ends_everything() -> None:
    engine, executor = make_async(max_num_seqs=1)
    requests = [endless(seed) for seed in range(2)]
    waits = [in_thread(partial(stream, engine, request)) for request in requests]
    wait_until(lambda: (m := engine.metrics()).running + m.waiting == 2)
    executor.hold()
    closing = in_thread(engine.close)
    wait_until(lambda: engine._closed)
    assert not executor.is_closed  # not under the step that runs
    executor.let_go()
    closing()
    assert executor.is_closed
    assert not engine_threads()
    for wait, request in zip(waits, requests, strict=True):
        assert wait().finish(request) is FinishReason.ABORT
    engine.close()
    with pytest.raises(EngineDeadError, match="closed"):
        stream(engine, make_request())
