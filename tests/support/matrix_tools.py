"""Requests of all kinds on the standard path and on velocity, and comparisons of their results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.model.generation import (
    Cancellation,
    Delta,
    FinishReason,
    GenerationRequest,
    Generator,
)
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import code_prompt, refine_prompt
from ChatTTS.model.velocity.async_llm_engine import AsyncLLMEngine
from ChatTTS.model.velocity.configs import EngineArgs, EngineConfig
from ChatTTS.model.velocity.executor import make_executor
from ChatTTS.model.velocity.generator import VelocityGenerator
from ChatTTS.model.velocity.llm_engine import LLMEngine
from ChatTTS.model.velocity.metrics import Metrics
from ChatTTS.pipeline.model import Model

from .places import DATA, ROOT

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
    loaded.load_or_raise("custom", custom_path=FOLDERS[name], device="cpu", use_vllm=False)
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
            sampling = SamplingParams(
                (0.7 + 0.1 * i,), 0.7 + 0.02 * i, 20 + i, 1.0 + 0.1 * i, i, 12 + i
            )
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
        sampling = SamplingParams(
            temperature, 0.7 + 0.03 * i, 10 + i, 1.0 + 0.05 * i, 5 * i, 14 + 5 * i
        )
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
        self.generator = VelocityGenerator(AsyncLLMEngine(LLMEngine(config, make_executor(config))))

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
    return Engine(replace(config, cache=cached))


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
