"""Velocity behind the generator interface, and ``LLM`` for scripts: texts and prompts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.errors import ConfigError, EngineDeadError, GenerationError, TextError, VoiceError
from ChatTTS.model.generation import (
    Cancellation,
    Delta,
    FinishReason,
    GenerationRequest,
)
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.tokenizer import Prompt, Tokenizer, code_prompt
from ChatTTS.model.velocity.generator import VelocityGenerator
from ChatTTS.model.velocity.llm import LLM
from ChatTTS.model.velocity.plan import SequenceData
from ChatTTS.model.velocity.tokenizer_group import TokenizerGroup

from ...support.places import DATA
from ...support.velocity_fakes import (
    HIDDEN,
    POSITIONS,
    FakeExecutor,
    engine_threads,
    expected,
    hidden_of,
    in_thread,
    logprob_of,
    make_async,
    make_prompt,
    make_request,
)
from ...support.waiting import SECONDS, wait_until

MODEL = DATA / "model-a"


# ---------------------------------------------------------------- the generator


def make_generator() -> tuple[VelocityGenerator, FakeExecutor]:
    engine, executor = make_async()
    return VelocityGenerator(engine), executor


def request_of(seed: int, kind: Pass = Pass.CODE, **settings: Any) -> GenerationRequest:
    return replace(make_request(seed, kind=kind, **settings), request_id="")


def run(
    generator: VelocityGenerator, requests: Sequence[GenerationRequest]
) -> list[tuple[list[list[int]], FinishReason]]:
    """Return ids and finish reason of each request; check that each ends exactly once."""
    ids: list[list[list[int]]] = [[] for _ in requests]
    finishes: dict[int, FinishReason] = {}
    for deltas in generator.generate(requests, Cancellation()):
        for delta in deltas:
            assert delta.index not in finishes
            key, start = requests[delta.index].key, len(ids[delta.index])
            ids[delta.index].extend(delta.ids.tolist())
            assert delta.ids.dtype is torch.int64
            assert delta.hiddens.tolist() == [
                hidden_of(key, position).tolist()
                for position in range(start, len(ids[delta.index]))
            ]
            if delta.finish is not None:
                finishes[delta.index] = delta.finish
    return [(ids[row], finishes[row]) for row in range(len(requests))]


def test_a_request_for_several_answers_is_refused() -> None:
    generator, _ = make_generator()
    with pytest.raises(ConfigError, match="n is 2"):
        run(generator, [request_of(1, n=2)])


def test_rows_of_both_kinds() -> None:
    generator, executor = make_generator()
    requests = [request_of(1), request_of(2, Pass.REFINE), request_of(3, max_new=1)]
    answers = run(generator, requests)
    assert answers == [expected(request.key, request.sampling) for request in requests]
    assert executor.steps <= 25  # side by side
    assert run(generator, requests[::-1]) == answers[::-1]
    assert run(generator, []) == []


def test_a_step_is_one_list() -> None:
    generator, executor = make_generator()
    requests = [request_of(seed, min_new=6, max_new=6) for seed in range(3)]
    steps = list(generator.generate(requests, Cancellation()))
    assert [[delta.index for delta in deltas] for deltas in steps] == [[0, 1, 2]] * 6
    assert executor.steps == 6


def test_cancelling_ends_every_row_within_a_step() -> None:
    generator, _ = make_generator()
    requests = [request_of(seed, min_new=POSITIONS, max_new=POSITIONS) for seed in range(2)]
    requests.append(request_of(5, Pass.REFINE, min_new=POSITIONS, max_new=POSITIONS))
    cancelled = Cancellation()
    steps: list[list[Delta]] = []
    for deltas in generator.generate(requests, cancelled):
        steps.append(deltas)
        if len(steps) == 5:
            cancelled.set()
    assert len(steps) == 6
    assert [delta.finish for delta in steps[-1]] == [FinishReason.ABORT] * 3
    assert [tuple(delta.ids.shape) for delta in steps[-1]] == [(0, 4), (0, 4), (0, 1)]
    assert all(delta.hiddens.shape == (0, HIDDEN) for delta in steps[-1])
    # Consumers of deltas concatenate them like this.
    whole = torch.cat([deltas[0].hiddens for deltas in steps])
    assert whole.shape == (5, HIDDEN)


def test_a_call_that_was_cancelled_before_gives_its_ends() -> None:
    generator, _ = make_generator()
    cancelled = Cancellation()
    cancelled.set()
    ((delta,),) = generator.generate([request_of(1)], cancelled)
    assert delta.finish is FinishReason.ABORT
    wait_until(lambda: not engine_threads())


def test_nothing_begins_where_one_request_does_not_fit() -> None:
    generator, executor = make_generator()
    long = replace(request_of(1), prompt=make_prompt(POSITIONS))
    with pytest.raises(TextError, match="shorten"):
        generator.generate([request_of(2), long], Cancellation())  # at once
    with pytest.raises(TextError, match="shorten"):
        run(generator, [request_of(2), long])
    mute = replace(request_of(1).prompt, speaker=np.ones(3, dtype=np.float32))
    with pytest.raises(VoiceError):
        run(generator, [request_of(2), replace(request_of(1), prompt=mute)])
    with pytest.raises(ConfigError, match="max_new"):
        run(
            generator, [replace(request_of(1), sampling=replace(request_of(1).sampling, max_new=0))]
        )
    assert executor.steps == 0


def test_an_unusable_answer_ends_one_call() -> None:
    generator, executor = make_generator()
    executor.bad_seeds = {1}
    good = request_of(2, min_new=40)
    wait = in_thread(lambda: run(generator, [good]))
    with pytest.raises(GenerationError, match="not finite"):
        run(
            generator,
            [request_of(3, min_new=POSITIONS, max_new=POSITIONS), request_of(1, min_new=40)],
        )
    assert wait() == [expected(good.key, good.sampling)]
    wait_until(lambda: not engine_threads())  # the first row did not run on without a reader
    assert generator.engine.metrics().requests_aborted == 1


def test_closing_the_iterator_frees_everything() -> None:
    generator, executor = make_generator()
    steps = generator.generate(
        [request_of(1, min_new=POSITIONS, max_new=POSITIONS)], Cancellation()
    )
    next(steps)
    steps.close()
    wait_until(lambda: not engine_threads())
    assert generator.engine.metrics().used_blocks == 0
    generator.close()
    assert executor.is_closed
    with pytest.raises(EngineDeadError):
        run(generator, [request_of(1)])


def test_calls_from_many_threads() -> None:
    generator, _ = make_generator()
    calls = [[request_of(10 * i + j) for j in range(3)] for i in range(6)]
    waits = [in_thread(partial(run, generator, call)) for call in calls]
    for wait, call in zip(waits, calls, strict=True):
        assert wait() == [expected(request.key, request.sampling) for request in call]


# ---------------------------------------------------------------- LLM


def make_llm() -> tuple[LLM, FakeExecutor]:
    engine, executor = make_async()
    return LLM(MODEL, engine=engine), executor


def test_texts_in_order() -> None:
    llm, executor = make_llm()
    asked: list[SequenceData] = []
    executor.on_step = lambda: asked.extend(executor.known.values())
    params = replace(llm.default_sampling_params(), max_new=12)
    assert params.temperature == (0.3,) * 4
    results = llm.generate(
        ["hello", "one good day"], [params, replace(params, n=2)], seeds=[7, 8], use_tqdm=False
    )
    assert [len(result.completions) for result in results] == [1, 2]
    for result, seed in zip(results, (7, 8), strict=True):
        for sample, completion in enumerate(result.completions):
            key = DrawKey(seed, Pass.CODE, sample=sample)
            ids, finish = expected(key, params)
            assert (completion.ids.tolist(), completion.finish) == (ids, finish)
            assert completion.sample == sample
            assert completion.mean_logprob == pytest.approx(logprob_of(key, 0))
            assert completion.hiddens.shape == (len(ids), HIDDEN)
            assert completion.text is None
    tokenizer = Tokenizer(MODEL / "asset" / "tokenizer")
    first = tokenizer.prompt(code_prompt("hello", "[speed_5]", speaker=False))
    assert any(np.array_equal(data.request.prompt.text, first.text) for data in asked)


def test_refined_texts_are_read() -> None:
    llm, _ = make_llm()
    (result,) = llm.generate("hello", kind=Pass.REFINE, seeds=3, use_tqdm=False)
    (completion,) = result.completions
    tokenizer = llm.tokens.tokenizer
    assert completion.ids.shape[1] == 1
    assert completion.text == tokenizer.decode_refined(completion.ids[:, 0]).strip()


def test_prompts_as_they_are_and_a_speaker() -> None:
    llm, executor = make_llm()
    asked: list[SequenceData] = []
    executor.on_step = lambda: asked.extend(executor.known.values())
    prompt = make_prompt()
    vector = torch.arange(1.0, HIDDEN + 1)
    params = replace(llm.default_sampling_params(), min_new=3, max_new=3)
    torch.manual_seed(5)
    first = llm.generate([prompt, "hello"], params, speaker=vector, tags="", use_tqdm=False)
    assert any(np.array_equal(data.request.prompt.text, prompt.text) for data in asked)
    spoken = next(data.request.prompt for data in asked if data.request.prompt.speaker is not None)
    assert spoken.speaker is not None
    assert np.allclose(spoken.speaker, vector / vector.norm())
    assert spoken.speaker_slots.sum() == 1
    # Without seeds, each prompt draws a seed of its own from torch's global generator.
    torch.manual_seed(5)
    again = llm.generate([prompt, "hello"], params, speaker=vector, tags="", use_tqdm=False)
    ids = [[c.completions[0].ids.tolist() for c in results] for results in (first, again)]
    assert ids[0] == ids[1]
    assert ids[0][0] != ids[0][1]


def test_what_llm_refuses() -> None:
    llm, executor = make_llm()
    params = llm.default_sampling_params()
    with pytest.raises(ConfigError, match="seeds has 1 entries for 2 prompts"):
        llm.generate(["hello", "hello"], seeds=[1])
    with pytest.raises(ConfigError, match="sampling_params has 3 entries"):
        llm.generate(["hello", "hello"], [params] * 3)
    with pytest.raises(ConfigError, match="dtype"):
        LLM(MODEL, engine=llm.engine, dtype="float32")
    executor.bad_seeds = {4}
    with pytest.raises(GenerationError, match=r"prompt 1: .* not finite"):
        llm.generate(["hello"] * 2, replace(params, min_new=9), seeds=[3, 4], use_tqdm=False)
    assert llm.generate([]) == []


def test_an_engine_that_was_given_stays_open() -> None:
    llm, executor = make_llm()
    with llm:
        pass
    assert not executor.is_closed


# ---------------------------------------------------------------- tokenizers


def test_prompts_off_the_loops_thread() -> None:
    tokens = TokenizerGroup(Tokenizer(MODEL / "asset" / "tokenizer"))
    texts = [f"hello number {i}" for i in range(20)]

    async def main() -> list[Prompt]:
        work = (tokens.prompt_async(text, tags="[speed_3]") for text in texts)
        return await asyncio.wait_for(asyncio.gather(*work), SECONDS)

    for text, prompt in zip(texts, asyncio.run(main()), strict=True):
        assert np.array_equal(prompt.text, tokens.prompt(text, tags="[speed_3]").text)
        assert np.array_equal(
            prompt.text, tokens.tokenizer.ids(code_prompt(text, "[speed_3]", speaker=False))
        )


def test_the_loop_goes_on_while_a_text_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = TokenizerGroup(Tokenizer(MODEL / "asset" / "tokenizer"))
    may_end = threading.Event()

    def slow(text: str, kind: Pass) -> str:
        assert may_end.wait(SECONDS)
        return text

    monkeypatch.setattr(tokens, "prompt", slow)

    async def main() -> Any:
        work = asyncio.ensure_future(tokens.prompt_async("hello"))
        await asyncio.sleep(0)
        may_end.set()
        return await asyncio.wait_for(work, SECONDS)

    assert asyncio.run(main()) == "hello"
