"""Time steps of rows with adapters, and check that rows without one keep their bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.llama.config import read_llama_shape
from ChatTTS.model.velocity.llm_engine import LLMEngine

from ..common.random_adapter import save_adapter
from .codes import Answer, answers_of
from .inputs import ALLOWED, error
from .model import engine_args, key, language_model, prompt, sampling
from .scale import Task
from .steps import Loaded, load, prompt_times, step_times

NAMES = ("anna", "bert")
# The adapters of the streams, by turns; -1 for none.
MIXES: Mapping[str, tuple[int, ...]] = {"none": (-1,), "one": (0,), "two and none": (-1, 0, 1)}
# Requests whose bits are compared, and their frames.
_REQUESTS, _FRAMES = 6, 8


def measure(task: Task, dtype: str, rank: int = 16) -> None:
    """Check bits, then time decode steps and prompts.

    Args:
        rank: of each adapter on each projection.

    Raises:
        RuntimeError: bits differ; the record says which.
    """
    record, scale = task.record, task.scale
    record.put(dtype=dtype, rank=rank)
    folder = language_model(task)
    shape = read_llama_shape(folder / "asset" / "gpt" / "config.json", scale.gpt)
    adapters = {
        name: save_adapter(task.folder / f"adapter-{name}", shape, seed, rank)
        for seed, name in enumerate(NAMES)
    }
    is_right = _compare(task, dtype, adapters)
    record.put(is_right=is_right)
    if not all(is_right.values()):
        wrong = [what for what, right in is_right.items() if not right]
        raise RuntimeError(f"not as it must be in {dtype}: {'; '.join(wrong)}")
    times: dict[str, Any] = {str(streams): {} for streams in scale.streams}
    plain = load(task, dtype)
    for streams in scale.streams:
        times[str(streams)]["not loaded"] = step_times(plain, streams, task.device)["step_ms"]
    prompts = {"not loaded": _prompts(plain, task)}
    del plain
    loaded = load(task, dtype, adapters=adapters)
    loaded.capture(adapted=True)
    for streams in scale.streams:
        for name, mix in MIXES.items():
            found = step_times(loaded, streams, task.device, mix)
            times[str(streams)][name] = found["step_ms"]
        record.put(streams=times)
    prompts["one"] = _prompts(loaded, task, 0)
    record.put(prompt_ms=prompts)


def _prompts(loaded: Loaded, task: Task, adapter: int = -1) -> dict[str, Any]:
    return {
        str(rows): prompt_times(loaded, rows, task.device, adapter) for rows in task.scale.prompts
    }


def _compare(task: Task, dtype: str, adapters: Mapping[str, Path]) -> dict[str, bool]:
    """Return which promises hold for requests of two adapters and of none in one batch."""
    names = (None, *NAMES)
    settings = sampling(task.scale.gpt, _FRAMES)
    requests = [
        GenerationRequest(
            prompt(task.scale.gpt, task.scale.prompt, n),
            settings,
            key(n),
            adapter=names[n % len(names)],
            request_id=f"r{n}",
        )
        for n in range(_REQUESTS)
    ]

    def engine(**given: Any) -> LLMEngine:
        args = replace(engine_args(task, dtype, **given), max_num_seqs=_REQUESTS, kv_memory="64MB")
        return LLMEngine.from_engine_args(args)

    loaded = engine(adapters=adapters)
    together = answers_of(loaded, requests)
    alone = [answers_of(loaded, [request])[0] for request in requests]
    loaded.close()
    plain = engine()
    without = answers_of(plain, [replace(request, adapter=None) for request in requests])
    plain.close()
    is_plain = [request.adapter is None for request in requests]
    kept = zip(together, without, is_plain, strict=True)
    # The kernels keep every bit, but not their torch references of a dry run.
    near = None if task.device.type == "cuda" else 5 * ALLOWED[dtype]
    return {
        "each row is as in its lone run": all(
            _equal(a, b, near) for a, b in zip(together, alone, strict=True)
        ),
        "rows without are as on an engine without": all(
            _equal(a, b, near) for a, b, plain in kept if plain
        ),
        "rows with are not": not any(
            torch.equal(a.hiddens, b.hiddens)
            for a, b, plain in zip(together, without, is_plain, strict=True)
            if not plain
        ),
    }


def _equal(ours: Answer, theirs: Answer, near: float | None) -> bool:
    """Return whether all codes and bits are equal; with ``near``, the first frame up to rounding.

    Later frames depend on the codes, and rounding decides some of those.
    """
    if near is not None:
        return error(ours.hiddens[:1], theirs.hiddens[:1]) <= near
    return np.array_equal(ours.ids, theirs.ids) and torch.equal(ours.hiddens, theirs.hiddens)
