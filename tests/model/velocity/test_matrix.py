"""Velocity gives the codes of the standard path, under every setting and load."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError, EngineUnavailableError
from ChatTTS.model.draws import DrawKey, Pass
from ChatTTS.model.generation import (
    Cancellation,
    Delta,
    FinishReason,
    GenerationRequest,
    Generator,
    Sampling,
)
from ChatTTS.model.tokenizer import code_prompt, refine_prompt
from ChatTTS.model.velocity.async_llm_engine import AsyncLLMEngine
from ChatTTS.model.velocity.configs import EngineArgs, EngineConfig
from ChatTTS.model.velocity.executor import InProcessExecutor
from ChatTTS.model.velocity.generator import VelocityGenerator
from ChatTTS.model.velocity.llm_engine import LLMEngine
from ChatTTS.model.velocity.metrics import Metrics
from ChatTTS.model.velocity.model_loader import ModelLoader
from ChatTTS.model.velocity.sampling_params import SamplingParams
from ChatTTS.pipeline.model import Model

from ...support.places import DATA, ROOT

FOLDERS = {
    "model-a": DATA / "model-a",
    "model-b": DATA / "model-b",
    "bundled": ROOT / "ChatTTS" / "bundled",
}
# The trained voice is larger: it takes as long as both others.
NAMES = ["model-a", "model-b", pytest.param("bundled", marks=pytest.mark.slow)]
WORDS = re.findall(r"\w+", "hello the world this is one good day and you are well so we go on")
BLOCK_OF_8 = {"block_size": 8}


@dataclass(frozen=True)
class Result:
    """The result of a request."""

    ids: torch.Tensor
    hiddens: torch.Tensor
    finish: FinishReason
    attention: torch.Tensor | None


@cache
def chat(name: str) -> Chat:
    """The model on the standard path."""
    loaded = Chat()
    loaded.load_or_raise("custom", custom_path=FOLDERS[name], device="cpu")
    return loaded


def make_requests(model: Model) -> list[GenerationRequest]:
    """Return requests for text and codes, with speakers and samples; all settings differ."""
    rng = np.random.default_rng(7)
    hidden = model.config.gpt.hidden_size
    requests = []
    for i in range(9):
        text = " ".join(rng.choice(WORDS, size=2 + 3 * i))
        if i % 4 == 3:
            prompt = model.tokenizer.prompt(refine_prompt(text, "[oral_2][laugh_0][break_6]"))
            sampling = Sampling((0.7 + 0.1 * i,), 0.7 + 0.02 * i, 20 + i, 1.0 + 0.1 * i, i, 12 + i)
            requests.append(GenerationRequest(prompt, sampling, DrawKey(i, Pass.REFINE, i)))
            continue
        speaker = rng.standard_normal(hidden).astype(np.float32) if i % 2 else None
        if speaker is not None:
            speaker /= np.linalg.norm(speaker)
        codes = rng.integers(0, 625, size=(5 * i, 4)) if i % 3 == 2 else None
        prompt = model.tokenizer.prompt(
            code_prompt(text, "[speed_5]", speaker=speaker is not None),
            speaker=speaker,
            codes=codes,
        )
        temperature = (0.0,) * 4 if i == 4 else (0.3 + 0.1 * i, 1.0, 0.8, 1.2)
        sampling = Sampling(temperature, 0.7 + 0.03 * i, 10 + i, 1.0 + 0.05 * i, 5 * i, 14 + 5 * i)
        requests.append(GenerationRequest(prompt, sampling, DrawKey(3 + i, Pass.CODE, i, 1, i)))
    return requests


def collect(generator: Generator, requests: Sequence[GenerationRequest]) -> list[Result]:
    """Run the requests as one call; return their results."""
    gained: list[list[Delta]] = [[] for _ in requests]
    for deltas in generator.generate(requests, Cancellation()):
        for delta in deltas:
            gained[delta.index].append(delta)
    results = []
    for own in gained:
        assert [delta.finish is None for delta in own] == [True] * (len(own) - 1) + [False]
        finish = own[-1].finish
        assert finish is not None
        ids, hiddens = (torch.cat([getattr(d, name) for d in own]) for name in ("ids", "hiddens"))
        given = [delta.attention for delta in own if len(delta.ids)]
        kept = [each for each in given if each is not None]
        attention = torch.cat(kept) if kept else None
        results.append(Result(ids, hiddens, finish, attention))
    return results


@cache
def requests_of(name: str) -> tuple[GenerationRequest, ...]:
    model = chat(name)._model
    assert model is not None
    return tuple(make_requests(model))


@cache
def expected(name: str) -> list[Result]:
    """The results of the requests on the standard path."""
    return collect(chat(name).gpt.engine, requests_of(name))


@cache
def plain(name: str) -> list[Result]:
    """The results of the requests on velocity with its defaults."""
    with velocity(name) as engine:
        return collect(engine.generator, requests_of(name))


class Engine:
    """A velocity engine for a test, closed at its end."""

    def __init__(self, config: EngineConfig) -> None:
        self.generator = VelocityGenerator(
            AsyncLLMEngine(LLMEngine(config, InProcessExecutor(config)))
        )

    @property
    def metrics(self) -> Metrics:
        return self.generator.engine.metrics()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        metrics = self.metrics
        self.generator.close()
        assert (metrics.running, metrics.waiting, metrics.swapped) == (0, 0, 0)
        assert metrics.used_blocks == 0


def velocity(name: str, **arguments: Any) -> Engine:
    """Make an engine with these ``EngineArgs``; ``num_blocks`` goes into its cache config."""
    blocks = arguments.pop("num_blocks", None)
    given = {"kv_memory": "64MB", "num_threads": 1, **arguments}
    config = EngineArgs(model=FOLDERS[name], **given).create_engine_config()
    cached = replace(config.cache, num_blocks=blocks)
    return Engine(
        replace(config, cache=cached, scheduler=replace(config.scheduler, measure_costs=False))
    )


def tight_pool(name: str) -> dict[str, Any]:
    """The number of blocks for the longest request and hardly more."""
    longest = max(len(r.prompt) + r.sampling.max_new for r in requests_of(name))
    return {**BLOCK_OF_8, "num_blocks": -(-longest // 8) + 2}


def check_same(found: Sequence[Result], wanted: Sequence[Result]) -> None:
    """Check that codes and finish reasons are equal, and hidden states but for rounding."""
    for own, other in zip(found, wanted, strict=True):
        assert torch.equal(own.ids, other.ids)
        assert own.finish is other.finish
        torch.testing.assert_close(own.hiddens.float(), other.hiddens, rtol=0, atol=5e-5)


def check_every_bit(found: Sequence[Result], wanted: Sequence[Result]) -> None:
    for own, other in zip(found, wanted, strict=True):
        assert torch.equal(own.ids, other.ids)
        assert torch.equal(own.hiddens, other.hiddens)


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


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow_for("model-a-three threads")
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
    params = SamplingParams(**vars(request.sampling), n=4)
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


@cache
def asking(name: str) -> tuple[GenerationRequest, ...]:
    """The requests, of which all but one in three ask for the attention of some heads."""
    gpt = chat(name).config.gpt
    layers, heads = gpt.num_hidden_layers, gpt.num_attention_heads
    pairs = [(layers - 1, heads - 1), (0, 0), (0, heads - 1), (layers - 1, 0)]
    return tuple(
        replace(request, alignment_heads=tuple(pairs[: (i % 3) * 2]))
        for i, request in enumerate(requests_of(name))
    )


@cache
def plain_attention(name: str) -> list[Result]:
    """The results on velocity with its defaults."""
    with velocity(name) as engine:
        return collect(engine.generator, asking(name))


@cache
def expected_attention(name: str) -> list[Result]:
    """The results on the standard path."""
    return collect(chat(name).gpt.engine, asking(name))


def check_attention(found: Sequence[Result], wanted: Sequence[Result], atol: float) -> None:
    """Check shapes, and that the attention is equal to ``atol``."""
    for own, other, request in zip(found, wanted, asking("model-a"), strict=True):
        if not request.alignment_heads:
            assert own.attention is None
            assert other.attention is None
            continue
        assert own.attention is not None
        assert other.attention is not None
        assert own.attention.dtype is torch.float32
        heads = len(request.alignment_heads)
        assert own.attention.shape == (len(own.ids), heads, len(request.prompt.text))
        torch.testing.assert_close(own.attention, other.attention, rtol=0, atol=atol)


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
