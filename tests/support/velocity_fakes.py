"""A fake executor whose model is a plain function; tests can hold, break and watch it."""

from __future__ import annotations

import hashlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from ChatTTS.config import Config, EmbedConfig, GPTConfig
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.embed import Embed
from ChatTTS.model.generation import Delta, FinishReason, GenerationRequest
from ChatTTS.model.merge_deltas import merge_deltas
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.async_llm_engine import AsyncLLMEngine
from ChatTTS.model.velocity.configs import CacheConfig, EngineConfig, ModelConfig, SchedulerConfig
from ChatTTS.model.velocity.executor import ExecutorBase
from ChatTTS.model.velocity.llm_engine import LLMEngine
from ChatTTS.model.velocity.output import RequestOutput
from ChatTTS.model.velocity.plan import Pending, SequenceData, StepPlan, StepResult, Work

from .waiting import SECONDS, Gate

T = TypeVar("T")

NUM_CODEBOOKS = 4
HIDDEN = 8
CODES = 100  # the last one ends
TEXT_TOKENS = 500
POSITIONS = 10_000
END_OF_TEXT = 7

CONFIG = Config(
    gpt=GPTConfig(
        hidden_size=HIDDEN,
        num_attention_heads=2,
        max_position_embeddings=POSITIONS,
        num_audio_tokens=CODES,
        num_text_tokens=TEXT_TOKENS,
        num_vq=NUM_CODEBOOKS,
    ),
    embed=EmbedConfig(HIDDEN, CODES, TEXT_TOKENS, NUM_CODEBOOKS),
)


# ---------------------------------------------------------------- the model


def _hash(key: DrawKey, what: str) -> int:
    # The text of repr(key), which Ctrl-C can break for good: the repr of a dataclass notes the
    # objects that it is at, and an interrupted one stays noted.
    said = ", ".join(f"{name}={value!r}" for name, value in vars(key).items())
    text = f"DrawKey({said}) {what}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def natural_length(key: DrawKey) -> int:
    """Return the number of ids after which a sample ends by itself."""
    return 3 + _hash(key, "length") % 20


def row_of(key: DrawKey, position: int) -> list[int]:
    """Return the ids [NUM_CODEBOOKS] that are drawn at a position of the answer, without ends."""
    if key.kind is Pass.REFINE:
        return [10 + _hash(key, str(position)) % (TEXT_TOKENS - 10), 0, 0, 0]
    return [_hash(key, f"{position} {codebook}") % (CODES - 1) for codebook in range(NUM_CODEBOOKS)]


def hidden_of(key: DrawKey, position: int) -> torch.Tensor:
    """Return the hidden state [HIDDEN] that the ids of a position are drawn from."""
    return torch.tensor([float(_hash(key, "hidden") % 2**20), float(position)] * (HIDDEN // 2))


def logprob_of(key: DrawKey, position: int) -> float:
    return -1.0 - _hash(key, f"logprob {position // 1000}") % 1000 / 1000


def expected(key: DrawKey, sampling: SamplingParams) -> tuple[list[list[int]], FinishReason]:
    """Return the ids and the finish reason that a sample gives in any batch."""
    num_codebooks = NUM_CODEBOOKS if key.kind is Pass.CODE else 1
    natural = max(natural_length(key), sampling.min_new)
    count = min(natural, sampling.max_new)
    finish = FinishReason.STOP if natural < sampling.max_new else FinishReason.LENGTH
    return [row_of(key, i)[:num_codebooks] for i in range(count)], finish


class FakeExecutor(ExecutorBase):
    """An executor that computes :func:`row_of`, :func:`hidden_of` and :func:`logprob_of`.

    Args:
        blocks: number of blocks in the pool, of 4 positions each.
        host_blocks: number of blocks in the host's pool.

    Attributes:
        steps: the number of steps begun.
        broken: an error that every step raises.
        bad_seeds: seeds of requests whose first sample has broken logits from the third id on.
        on_step: called in every step.
        pause: seconds that a step takes.
    """

    def __init__(self, blocks: int = 10_000, host_blocks: int = 0) -> None:
        self.steps = 0
        self.pause = 0.0
        self.broken: BaseException | None = None
        self.bad_seeds: set[int] = set()
        self.on_step: Callable[[], None] | None = None
        self.is_closed = False
        self.known: dict[int, SequenceData] = {}
        self.gate = Gate()
        self._cache = CacheConfig(block_size=4, num_blocks=blocks, num_host_blocks=host_blocks)

    def init_workers(self) -> None:
        self.checkpoint, self.placement = CONFIG, choose_placement("cpu")
        self.end_of_text = END_OF_TEXT

    @property
    def embed(self) -> Embed:
        raise AssertionError("an engine needs no embeddings")

    def init_cache(self) -> CacheConfig:
        return self._cache

    def hold(self) -> None:
        """Hold all steps from now on; wait until one is held."""
        self.gate.hold()
        self.gate.wait()

    def let_go(self) -> None:
        self.gate.open()

    def execute_model(self, plan: StepPlan) -> Pending:
        self.steps += 1
        if self.on_step is not None:
            self.on_step()
        self.gate.pass_by()
        if self.pause:
            time.sleep(self.pause)
        if self.broken is not None:
            raise self.broken
        for seq_id in plan.ended:
            self.known.pop(seq_id, None)
        self.known.update((data.seq_id, data) for data in plan.new)
        drawing = [work for work in plan.work if work.draws]
        drawn = [self._draw(self.known[work.seq_id], work) for work in drawing]
        result = StepResult(
            ids=np.array([ids for ids, _, _, _ in drawn], dtype=np.int64).reshape(
                -1, NUM_CODEBOOKS
            ),
            hiddens=torch.stack([h for _, h, _, _ in drawn]) if drawn else torch.empty(0, HIDDEN),
            logprobs=np.array([logprob for _, _, logprob, _ in drawn], dtype=np.float32),
            finite=np.array([finite for _, _, _, finite in drawn], dtype=np.bool_),
        )
        return lambda: result

    def _draw(self, data: SequenceData, work: Work) -> tuple[list[int], torch.Tensor, float, bool]:
        key = data.request.key
        position = work.start + work.count - len(data.request.prompt)
        ids = row_of(key, position)
        if position >= max(natural_length(key), data.request.sampling.min_new):
            # The end id, in a codebook that depends on the position.
            ids[position % NUM_CODEBOOKS if key.kind is Pass.CODE else 0] = (
                CODES - 1 if key.kind is Pass.CODE else END_OF_TEXT
            )
        finite = position < 2 or key.sample > 0 or key.seed not in self.bad_seeds
        return ids, hidden_of(key, position), logprob_of(key, position), finite

    def close(self) -> None:
        self.is_closed = True


# ---------------------------------------------------------------- engines and requests


def make_engine(
    executor: FakeExecutor | None = None, **scheduler: Any
) -> tuple[LLMEngine, FakeExecutor]:
    executor = executor or FakeExecutor()
    config = EngineConfig(
        ModelConfig(Path("nowhere")),
        scheduler=replace(SchedulerConfig(max_num_batched_tokens=64, max_num_seqs=16), **scheduler),
    )
    return LLMEngine(config, executor), executor


def make_async(
    executor: FakeExecutor | None = None, **scheduler: Any
) -> tuple[AsyncLLMEngine, FakeExecutor]:
    """Make an engine with slow steps, so that other threads can act within a step."""
    engine, executor = make_engine(executor, **scheduler)
    executor.pause = 0.0005
    return AsyncLLMEngine(engine), executor


_NUMBERS = itertools.count()


def make_prompt(length: int = 10, first: int = 20) -> Prompt:
    ids = first + np.arange(length, dtype=np.int64) % 100
    return Prompt(ids, np.zeros((0, 0), dtype=np.int64), None, np.zeros(length, dtype=np.bool_))


def make_request(
    seed: int = 0,
    *,
    kind: Pass = Pass.CODE,
    length: int = 10,
    min_new: int = 0,
    max_new: int = 100,
    n: int = 1,
    best: bool = False,
    priority: float = 0,
    request_id: str | None = None,
) -> GenerationRequest:
    num_codebooks = NUM_CODEBOOKS if kind is Pass.CODE else 1
    sampling = SamplingParams(
        (1.0,) * num_codebooks, 0.7, 20, 1.0, min_new, max_new, n=n, best=best
    )
    return GenerationRequest(
        make_prompt(length, 20 + seed % 50),
        sampling,
        DrawKey(seed, kind),
        request_id=request_id or f"request-{next(_NUMBERS)}",
        priority=priority,
    )


def endless(seed: int = 0, **changes: Any) -> GenerationRequest:
    """Make a request that runs until the model's last position."""
    return make_request(seed, min_new=POSITIONS, max_new=POSITIONS, **changes)


class Joined:
    """Joins the outputs of requests, and checks that each ends exactly once."""

    def __init__(self) -> None:
        self.samples: dict[tuple[str, int], list[Delta]] = {}
        self.finished: set[str] = set()
        self.errors: dict[str, str] = {}

    def take(self, outputs: Iterable[RequestOutput]) -> None:
        for output in outputs:
            name = output.request_id
            assert name not in self.finished
            for delta in output.deltas:
                before = self.samples.setdefault((name, delta.index), [])
                assert not before or before[-1].finish is None
                assert len(delta.ids) == len(delta.hiddens)
                before.append(delta)
            if output.finished:
                self.finished.add(name)
            if output.error is not None:
                self.errors[name] = output.error

    def ids(self, request: GenerationRequest, sample: int = 0) -> list[list[int]]:
        return merge_deltas(self.samples[request.request_id, sample]).ids.tolist()

    def finish(self, request: GenerationRequest, sample: int = 0) -> FinishReason | None:
        return self.samples[request.request_id, sample][-1].finish

    def check(self, request: GenerationRequest) -> None:
        """Raise unless the request ended and gave exactly what it gives alone."""
        assert request.request_id in self.finished
        for sample in range(request.sampling.n):
            key = replace(request.key, sample=request.key.sample + sample)
            whole = merge_deltas(self.samples[request.request_id, sample])
            ids, finish = expected(key, request.sampling)
            assert whole.ids.tolist() == ids
            assert whole.finish is finish
            hiddens = [hidden_of(key, i) for i in range(len(ids))]
            assert torch.equal(whole.hiddens, torch.stack(hiddens))
            logprobs = [np.float32(logprob_of(key, i)) for i in range(len(ids))]
            assert math.isclose(whole.logprob, math.fsum(logprobs), rel_tol=1e-5)


def run_all(engine: LLMEngine, joined: Joined | None = None) -> Joined:
    """Step until no request is left; return the joined outputs."""
    joined = joined or Joined()
    for _ in range(10_000):
        if not engine.has_unfinished_requests():
            return joined
        joined.take(engine.step())
    raise AssertionError("the engine does not come to an end")


def engine_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "velocity"]


def in_thread(work: Callable[[], T]) -> Callable[[], T]:
    """Start ``work`` in a thread; return a function that waits up to ``SECONDS`` for its result."""
    result: list[T] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            result.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()

    def wait() -> T:
        thread.join(SECONDS)
        assert not thread.is_alive(), "a thread hangs"
        if errors:
            raise errors[0]
        return result[0]

    return wait
