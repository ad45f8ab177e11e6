"""Time decode steps of the engine on the device, and the kernels in them.

The times are held against the rate of the memory, and against the expectation of ``step_model.py``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from ChatTTS.model.devices.tf32 import ieee_float32
from ChatTTS.model.embed import RowKind
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.kernels import int8
from ChatTTS.model.kernels.cuda import dependent_launch
from ChatTTS.model.processors import PENALTY_WINDOW
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.velocity.backends.cuda.decode_steps import DecodeSteps
from ChatTTS.model.velocity.backends.cuda.prompt_steps import PromptSteps
from ChatTTS.model.velocity.input_batch import InputBatch, SequenceState
from ChatTTS.model.velocity.layers import Llama
from ChatTTS.model.velocity.loaded_model import LoadedModel
from ChatTTS.model.velocity.model_loader import ModelLoader
from ChatTTS.model.velocity.plan import Pending, Work

from ..common.step_limit import StepWork
from .model import engine_args, prompt, sampling
from .scale import Scale, Task
from .step_model import expectation
from .timing import DeviceSpan, copy_rate, spread, synchronize, wall_seconds


@dataclass(frozen=True)
class Loaded:
    """The parts of an engine that decode, and its KV cache.

    Attributes:
        blocks: number of blocks of a sequence.
        kind: the pass: steps draw codes or text ids.
    """

    model: LoadedModel
    pool: torch.Tensor
    steps: DecodeSteps
    blocks: int
    scale: Scale
    kind: Pass = Pass.CODE

    def capture(self, *, adapted: bool = False) -> None:
        """Capture the steps of all numbers of streams, of rows with adapters or without."""
        buckets = self.steps.buckets
        wanted = {next(b for b in buckets if b >= count) for count in self.scale.streams}
        with ieee_float32():
            for rows in sorted(wanted, reverse=True):
                self.steps.capture(rows, adapted=adapted)

    def lay_out(self, streams: int, adapters: Sequence[int] = (-1,)) -> Streams:
        """Return ``streams`` sequences, each shortly before the timed position.

        Their blocks are in random order.

        Args:
            adapters: the numbers of their adapters, by turns; -1 for none.
        """
        scale = self.scale
        position = scale.positions - 1 - scale.steps // 2
        most_positions = scale.gpt.max_position_embeddings
        settings, most = sampling(scale.gpt, most_positions), 600
        if self.kind is Pass.REFINE:
            settings = replace(settings, temperature=settings.temperature[:1])
            most = scale.gpt.num_text_tokens
        drawn = np.random.default_rng(0).integers(0, most, (PENALTY_WINDOW, scale.gpt.num_vq))
        blocks = np.random.default_rng(1).permutation(streams * self.blocks)
        works, states = [], []
        for row, table in enumerate(blocks.reshape(streams, self.blocks).tolist()):
            given = prompt(scale.gpt, position + 1 - PENALTY_WINDOW, row)
            request = GenerationRequest(given, settings, DrawKey(row, self.kind))
            adapter = adapters[row % len(adapters)]
            state = SequenceState(request, scale.gpt.num_vq, most_positions, adapter)
            state.append(drawn)
            states.append(state)
            works.append(Work(row, position, 1, tuple(table), draws=True))
        return Streams(self.steps, works, states)


@dataclass
class Streams:
    """Sequences that decode together.

    Attributes:
        works: their next step.
    """

    steps: DecodeSteps
    works: list[Work]
    states: Sequence[SequenceState]

    def run(self, steps: int) -> Pending:
        """Submit steps; the first ones also put the sequences on the device."""
        pending = self.steps.sample(self.works, self.states, steps)
        self.works = [replace(work, start=work.start + steps) for work in self.works]
        return pending


def load(
    task: Task,
    dtype: str,
    *,
    batch_invariant: bool = True,
    adapters: Mapping[str, Path] | None = None,
    kind: Pass = Pass.CODE,
    kv_cache_dtype: str = "auto",
    quantization: str | None = None,
) -> Loaded:
    """Load the model and capture the CUDA graphs of the timed steps; both times are recorded.

    Args:
        kind: what the steps draw.
    """
    scale, record = task.scale, task.record
    args = engine_args(
        task,
        dtype,
        batch_invariant=batch_invariant,
        adapters=adapters,
        kv_cache_dtype=kv_cache_dtype,
        quantization=quantization,
    )
    config = args.create_engine_config()
    began = time.perf_counter()
    model = ModelLoader(config).load()
    synchronize(task.device)
    record.put(load_s=time.perf_counter() - began, how=model.how)
    assert isinstance(model.llama, Llama)
    assert model.capturer is not None
    blocks = -(-(scale.positions + 2 * scale.steps) // config.cache.block_size)
    pool = filled(model.llama.new_pool(max(scale.streams) * blocks))
    steps = DecodeSteps(
        model.llama,
        model.embed,
        pool,
        model.capturer,
        max_rows=max(scale.streams),
        max_positions=scale.gpt.max_position_embeddings,
        kind=kind,
        end=model.ends[kind],
    )
    loaded = Loaded(model, pool, steps, blocks, scale, kind)
    began = time.perf_counter()
    loaded.capture()
    record.put(record_s=time.perf_counter() - began, captures=model.capturer.captures)
    return loaded


def filled(pool: torch.Tensor) -> torch.Tensor:
    """Return the pool with random keys and values in it."""
    if pool.dtype is not torch.int8:
        return pool.normal_()
    numbers, scales = int8.split_scales(pool)
    numbers.random_(-127, 128)
    scales.fill_(2 / 127)
    return pool


def measure(task: Task, dtype: str, batch_invariant: bool = True, details: bool = False) -> None:
    """Time decode steps with each number of streams, and steps that read a prompt.

    Args:
        batch_invariant: the engine's setting.
        details: also time each kernel, and steps whose launches do not overlap.
    """
    record, scale = task.record, task.scale
    rate = copy_rate(scale)
    record.put(dtype=dtype, positions=scale.positions, copy_gb_s=rate / 1e9)
    record.put(batch_invariant=batch_invariant)
    loaded = load(task, dtype, batch_invariant=batch_invariant)
    work = StepWork.of(scale.gpt, dtype, dtype)
    expected = {}
    if dtype == "bfloat16" and batch_invariant and expectation(task).exists():
        expected = json.loads(expectation(task).read_text(encoding="utf-8"))
    results: dict[str, Any] = {}
    for streams in scale.streams:
        results[str(streams)] = step_times(loaded, streams, task.device)
        step = results[str(streams)]["step_ms"]["median"]
        read = work.weight_bytes + streams * scale.positions * work.position_bytes
        floor = 1000 * read / rate
        results[str(streams)] |= {
            "floor_ms": floor,
            "share_of_limit": floor / step,
            "frames_per_s": 1000 * streams / step,
        }
        if str(streams) in expected:
            results[str(streams)]["expected_ms"] = expected[str(streams)]
        record.put(streams=results)
    if task.device.type == "cuda":
        record.put(peak_gb=torch.cuda.max_memory_allocated() / 1e9)
    prompts = {}
    for rows in scale.prompts:
        prompts[str(rows)] = prompt_times(loaded, rows, task.device)
        record.put(prompt_ms=prompts)
    if not details:
        return
    kernels = {}
    for streams in scale.streams:
        kernels[str(streams)] = kernel_times(loaded, streams, task.device)
        record.put(kernels=kernels)
    with patch.dict(os.environ, {dependent_launch.OVERLAP_VARIABLE: "0"}):
        loaded.capture()
        for streams in scale.streams:
            apart = step_times(loaded, streams, task.device)["step_ms"]
            results[str(streams)]["without_overlap_ms"] = apart["median"]
            record.put(streams=results)


def step_times(
    loaded: Loaded, streams: int, device: torch.device, adapters: Sequence[int] = (-1,)
) -> dict[str, Any]:
    """Return the times of a step.

    They are milliseconds on the device, microseconds of the host to launch it, and microseconds
    to read its results.

    Args:
        adapters: see :meth:`Loaded.lay_out`.
    """
    count = loaded.scale.steps
    on_device, launching, reading = [], [], []
    for _ in range(loaded.scale.rounds + 2):
        own = loaded.lay_out(streams, adapters)
        own.run(1)()
        synchronize(device)
        span = DeviceSpan(device)
        began = time.perf_counter()
        pending = own.run(count)
        launching.append((time.perf_counter() - began) / count)
        on_device.append(span.seconds() / count)
        began = time.perf_counter()
        decoded = pending()
        reading.append((time.perf_counter() - began) / count)
    return {
        "step_ms": spread(on_device[2:]),
        "host_us": spread(launching[2:], 1e6),
        "read_us": 1e6 * median(reading[2:]),
        "finite": bool(decoded.finite.all()),
    }


def prompt_times(
    loaded: Loaded, rows: int, device: torch.device, adapter: int = -1
) -> dict[str, float]:
    """Time a step that reads a prompt of ``rows`` positions.

    Args:
        adapter: the number of the prompt's adapter, or -1.
    """
    scale, model = loaded.scale, loaded.model
    blocks = -(-rows // loaded.pool.shape[4])
    if blocks > len(loaded.pool):
        raise ValueError(f"{rows} positions need {blocks} blocks, and {len(loaded.pool)} are there")
    batch = InputBatch(
        kinds=np.full(rows, RowKind.TEXT, dtype=np.uint8),
        ids=np.zeros((rows, scale.gpt.num_vq), dtype=np.int32),
        vectors=np.empty((0, scale.gpt.hidden_size), dtype=np.float32),
        positions=np.arange(rows, dtype=np.int32),
        tables=np.arange(blocks, dtype=np.int32).reshape(1, blocks),
        table_of=np.zeros(rows, dtype=np.int32),
        draws=np.empty(0, dtype=np.int32),
        adapter_of=None if adapter < 0 else np.full(rows, adapter, dtype=np.int32),
    )
    assert isinstance(model.llama, Llama)
    assert model.capturer is not None
    captured = PromptSteps(
        model.llama,
        loaded.pool,
        model.capturer,
        num_codebooks=scale.gpt.num_vq,
        hidden=scale.gpt.hidden_size,
        max_rows=rows,
        max_sequences=1,
        max_positions=scale.gpt.max_position_embeddings,
    )
    with ieee_float32():
        captured.capture(rows, adapted=adapter >= 0)
    return spread(wall_seconds(lambda: captured.launch(batch), device, 5))


def kernel_times(loaded: Loaded, streams: int, device: torch.device) -> dict[str, Any]:
    """Return calls and microseconds of each kernel in a step, and their sums."""
    count = loaded.scale.steps
    on_cuda = device.type == "cuda"
    running = loaded.lay_out(streams)
    running.run(1)()
    synchronize(device)
    activity = ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU
    with profile(activities=[activity]) as seen:
        running.run(count)()
        synchronize(device)
    wanted = DeviceType.CUDA if on_cuda else DeviceType.CPU
    own = "self_device_time_total" if on_cuda else "self_cpu_time_total"
    kernels = [
        {"name": e.key, "calls": e.count / count, "us": getattr(e, own) / count}
        for e in seen.key_averages()
        if e.device_type == wanted and getattr(e, own) > 0
    ]
    kernels.sort(key=lambda kernel: -kernel["us"])
    return {
        "each": kernels,
        "launches": sum(kernel["calls"] for kernel in kernels),
        "busy_us": sum(kernel["us"] for kernel in kernels),
    }
