"""Load and unload the engine again and again: times, memory that stays, bits of an answer."""

from __future__ import annotations

import gc
import time
from typing import Any

import torch

from ChatTTS.model.velocity.llm_engine import LLMEngine

from ..common.memory import resident_bytes
from .codes import answers_of
from .model import engine_args, requests_of
from .scale import Task
from .timing import synchronize

_ROUNDS = 5
_MIB = 1 << 20
_REQUESTS, _FRAMES = 4, 8
# MiB of the device's memory that may stay behind between the first and the last round: libraries
# keep some of their own.
_ALLOWED = 64


def measure(task: Task, dtype: str) -> None:
    """Record each round's times, and the memory of device and host behind it.

    Raises:
        RuntimeError: memory stays behind, or a later engine gives other bits.
    """
    record, rounds = task.record, list[dict[str, Any]]()
    record.put(dtype=dtype, allowed_mib=_ALLOWED, rounds=rounds)
    requests = requests_of(task.scale, _REQUESTS, _FRAMES)
    first = None
    same = True
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        engine = LLMEngine.from_engine_args(engine_args(task, dtype))
        load_s = time.perf_counter() - began
        answers = answers_of(engine, requests)
        first = first or answers
        same &= all(a.hiddens.equal(b.hiddens) for a, b in zip(answers, first, strict=True))
        began = time.perf_counter()
        engine.close()
        del engine, answers
        gc.collect()
        synchronize(task.device)
        rounds.append({"load_s": load_s, "unload_s": time.perf_counter() - began, **_memory(task)})
        record.put(rounds=rounds)
    wrong = [] if same else ["a later engine gives other bits"]
    for kind in ("allocated_mib", "taken_mib"):
        grown = rounds[-1].get(kind, 0.0) - rounds[0].get(kind, 0.0)
        if grown > _ALLOWED:
            wrong.append(f"{grown:.0f} MiB stay behind ({kind[:-4]})")
    if wrong:
        raise RuntimeError(f"after {_ROUNDS} loads: {'; '.join(wrong)}")


def _memory(task: Task) -> dict[str, float]:
    """Return MiB that are in use: of the process, by torch's tensors, and of the device's memory.

    The allocator first gives back what no tensor takes.
    """
    found = {"host_mib": resident_bytes() / _MIB}
    if task.device.type == "cuda":
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(task.device)
        found["allocated_mib"] = torch.cuda.memory_allocated(task.device) / _MIB
        found["taken_mib"] = (total - free) / _MIB
    return found
