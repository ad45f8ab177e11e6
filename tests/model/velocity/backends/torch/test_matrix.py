"""Velocity gives the codes of the standard path, under every setting and load."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError, EngineUnavailableError
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.llm_engine import LLMEngine
from ChatTTS.model.velocity.model_loader import ModelLoader

from .....support.matrix_tools import (
    BLOCK_OF_8,
    FOLDERS,
    NAMES,
    asking,
    chat,
    check_attention,
    check_every_bit,
    check_same,
    collect,
    expected,
    expected_attention,
    plain,
    plain_attention,
    requests_of,
    tight_pool,
    velocity,
)

# ---------------------------------------------------------------- code for code


@pytest.mark.parametrize("name", NAMES)
def test_velocity_gives_what_the_standard_path_gives(name: str) -> None:
    check_same(plain(name), expected(name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_torch_alone_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelLoader, "_team", lambda self: None)
    with velocity(name) as whole, velocity(name, max_num_batched_tokens=7, block_size=8) as cut:
        results = collect(whole.generator, requests_of(name))
        check_same(results, expected(name))
        check_every_bit(collect(cut.generator, requests_of(name)), results)
    with velocity(name, batch_invariant=False) as quick:
        check_same(collect(quick.generator, requests_of(name)), expected(name))


SETTINGS: dict[str, dict[str, Any]] = {
    "chunks of one": {"max_num_batched_tokens": 1},
    "chunks of 3": {"max_num_batched_tokens": 3},
    "chunks of 7": {"max_num_batched_tokens": 7},
    "whole prompts": {"max_num_batched_tokens": 4096},
    "blocks of 8": BLOCK_OF_8,
    "blocks of 5": {"block_size": 5},
    "blocks of 64": {"block_size": 64},
    "no prefix cache": {"enable_prefix_caching": False},
    "two at once": {"max_num_seqs": 2},
    "priority": {"policy": "priority"},
    "three threads": {"num_threads": 3},
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", NAMES)
def test_no_setting_changes_a_bit(name: str, settings: dict[str, Any]) -> None:
    with velocity(name, **settings) as engine:
        for _ in range(2):  # the second time with what the prefix cache kept
            check_every_bit(collect(engine.generator, requests_of(name)), plain(name))
        if settings.get("block_size", 32) == 8:
            assert engine.metrics.cached_positions > 0
        if not settings.get("enable_prefix_caching", True):
            assert engine.metrics.cached_positions == 0


@pytest.mark.parametrize("name", NAMES)
def test_what_is_preempted_is_computed_again(name: str) -> None:
    with velocity(name, **tight_pool(name), enable_prefix_caching=False) as engine:
        check_every_bit(collect(engine.generator, requests_of(name)), plain(name))
        assert engine.metrics.preempted_recompute > 0
        assert engine.metrics.preempted_swap == 0


@pytest.mark.slow
@pytest.mark.parametrize("prefixes", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_swapped_out_comes_back(name: str, prefixes: bool) -> None:
    settings = {**tight_pool(name), "enable_prefix_caching": prefixes}
    with velocity(name, **settings, swap_memory="64MB") as engine:
        for _ in range(2):
            check_every_bit(collect(engine.generator, requests_of(name)), plain(name))
        assert engine.metrics.preempted_swap > 0


# ---------------------------------------------------------------- company


def test_alone_or_among_fifteen_others() -> None:
    requests = [*requests_of("model-a"), *requests_of("model-a")[:7]]
    with velocity("model-a", **BLOCK_OF_8) as engine:
        together = collect(engine.generator, requests)
        alone = [collect(engine.generator, [request])[0] for request in requests]
    check_every_bit(together, alone)


def test_arrival_in_any_order() -> None:
    order = [5, 2, 8, 0, 7, 1, 6, 3, 4]
    with velocity("model-a", max_num_seqs=4) as engine:
        shuffled = collect(engine.generator, [requests_of("model-a")[i] for i in order])
    check_every_bit(shuffled, [plain("model-a")[i] for i in order])


@pytest.mark.slow
def test_threads_share_the_batch() -> None:
    requests, found = requests_of("bundled"), {}
    with velocity("bundled") as engine:

        def work(i: int) -> None:
            found[i] = collect(engine.generator, [requests[i % len(requests)]])[0]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2 * len(requests))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        steps, tokens = engine.metrics.steps, engine.metrics.generated_tokens
    assert steps < tokens  # they were not run one after another
    check_every_bit([found[i] for i in range(len(threads))], [*plain("bundled")] * 2)


def test_samples_of_one_prompt_are_as_if_each_were_asked_for(
    make_llm: Callable[..., LLMEngine],
) -> None:
    request = requests_of("model-a")[5]
    engine = make_llm("model-a", block_size=8)
    drawn: dict[int, list[torch.Tensor]] = {i: [] for i in range(4)}
    params = replace(request.sampling, n=4)
    engine.add_request("samples", request.prompt, params, request.key)
    while engine.has_unfinished_requests():
        for output in engine.step():
            for delta in output.deltas:
                drawn[delta.index].append(delta.ids)
    metrics = engine.metrics()
    assert metrics.copied_blocks > 0  # they shared the last block of the prompt
    keys = [replace(request.key, sample=request.key.sample + i) for i in range(4)]
    alone = collect(chat("model-a").gpt.engine, [replace(request, key=key) for key in keys])
    for i, result in enumerate(alone):
        assert torch.equal(torch.cat(drawn[i]), result.ids)
    assert not torch.equal(alone[0].ids, alone[1].ids)


@pytest.fixture
def make_llm() -> Iterator[Callable[..., LLMEngine]]:
    made = []

    def make(name: str, **arguments: Any) -> LLMEngine:
        args = EngineArgs(model=FOLDERS[name], kv_memory="64MB", num_threads=1, **arguments)
        made.append(LLMEngine.from_engine_args(args))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


# ---------------------------------------------------------------- attention


def test_attention_is_that_of_the_standard_path() -> None:
    found = plain_attention("model-a")
    check_attention(found, expected_attention("model-a"), 1e-5)
    check_same(expected_attention("model-a"), expected("model-a"))  # to ask changes no code
    check_every_bit(found, plain("model-a"))
    with velocity("model-a", **tight_pool("model-a")) as engine:
        check_attention(collect(engine.generator, asking("model-a")), found, 0)
        assert engine.metrics.preempted_recompute > 0


ATTENTION_SETTINGS = ("chunks of 3", "blocks of 5", "two at once", "three threads")


@pytest.mark.parametrize("settings", ATTENTION_SETTINGS)
@pytest.mark.slow_for("three threads", "two at once", "blocks of 5")
def test_no_setting_changes_a_bit_of_the_attention(settings: str) -> None:
    with velocity("model-a", **SETTINGS[settings]) as engine:
        for _ in range(2):  # the second time with what the prefix cache kept
            found = collect(engine.generator, asking("model-a"))
            check_attention(found, plain_attention("model-a"), 0)


def test_attention_of_torch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelLoader, "_team", lambda self: None)
    chosen = [i for i in range(6) if i % 3]
    requests = [asking("model-a")[i] for i in chosen]
    with velocity("model-a", max_num_batched_tokens=7, block_size=8) as engine:
        for found, i in zip(collect(engine.generator, requests), chosen, strict=True):
            other = plain_attention("model-a")[i]
            assert found.attention is not None
            assert other.attention is not None
            torch.testing.assert_close(found.attention, other.attention, rtol=0, atol=1e-5)


def test_attention_without_a_cache() -> None:
    """The standard path then computes the keys of all positions anew in each step."""
    loaded = Chat()
    folder = FOLDERS["model-a"]
    loaded.load_or_raise("custom", custom_path=folder, device="cpu", enable_cache=False)
    [found] = collect(loaded.gpt.engine, [asking("model-a")[1]])
    wanted = plain_attention("model-a")[1]
    assert found.attention is not None
    assert wanted.attention is not None
    torch.testing.assert_close(found.attention, wanted.attention, rtol=0, atol=1e-5)


def test_attention_is_the_softmax_over_all_positions() -> None:
    """A prompt of text alone: with the first draw, the text is all that there is."""
    for result, request in zip(plain_attention("model-a"), asking("model-a"), strict=True):
        if result.attention is None or len(request.prompt.codes):
            continue
        sums = result.attention.sum(dim=-1)
        torch.testing.assert_close(sums[0], torch.ones(len(sums[0])), rtol=0, atol=1e-5)
        assert (sums[-1] < 0.9999).all()


def test_engines_without_attention_say_so() -> None:
    gpt = chat("model-a").gpt
    with velocity("model-a") as engine:
        request = asking("model-a")[1]
        missing = replace(request, alignment_heads=((99, 0),))
        for generator in (engine.generator, gpt.engine):
            with pytest.raises(ConfigError, match="layer 99"):
                collect(generator, [missing])
        engine.generator.engine.engine._gives_attention = False
        with pytest.raises(EngineUnavailableError, match="attention"):
            collect(engine.generator, [request])
