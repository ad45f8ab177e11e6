"""Time the whole engine on the device: start, frames a second, first frame, work of the host."""

from __future__ import annotations

import time
from typing import Any

import torch

from ChatTTS.model.cuda.capture_thread import capture_in_background
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.velocity.configs import CacheConfig, EngineConfig
from ChatTTS.model.velocity.executor import InProcessExecutor
from ChatTTS.model.velocity.llm_engine import LLMEngine

from .model import engine_args, key, prompt, sampling
from .scale import Scale, Task
from .timing import spread, wait_for_captures

# Timed runs, after a warm-up.
_RUNS = 3


class TimedExecutor(InProcessExecutor):
    """An executor that times its own start.

    Attributes:
        load_s: seconds to load the model.
        cache_s: seconds to allocate the pools, and to compile and capture the first steps.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.load_s = self.cache_s = 0.0

    def init_workers(self) -> None:
        began = time.perf_counter()
        super().init_workers()
        self.load_s = time.perf_counter() - began

    def init_cache(self) -> CacheConfig:
        began = time.perf_counter()
        cache = super().init_cache()
        self.cache_s = time.perf_counter() - began
        return cache


def measure(task: Task, dtype: str, runs: bool = True) -> None:
    """Time a start, the first request's first frame, then runs with each number of requests.

    Args:
        runs: whether to time runs after the start.
    """
    record, scale = task.record, task.scale
    args = engine_args(task, dtype)
    record.put(dtype=dtype, import_s=time.time() - task.began)
    config = args.create_engine_config()
    executor = TimedExecutor(config)
    engine = LLMEngine(config, executor)
    record.put(load_s=executor.load_s, cache_s=executor.cache_s)
    record.put(first_request_s=_run(engine, scale, 1, 2, 0)["first_s"])
    if executor.capturable is not None:
        capture_in_background([executor.capturable])
        record.put(behind_s=wait_for_captures([executor.capturable]))
    if not runs:
        return
    results: dict[str, Any] = {}
    number = 1
    for streams in scale.streams:
        found = []
        for _ in range(_RUNS + 1):
            found.append(_run(engine, scale, streams, scale.frames, number))
            number += streams
        kept = {name: [run[name] for run in found[1:]] for name in found[0]}
        results[str(streams)] = {
            "frames_per_s": spread(kept["frames_per_s"], 1),
            "step_ms": spread(kept["step_ms"], 1),
            "first_frame_ms": spread(kept["first_s"]),
            "host_us": spread(kept["host_us"], 1),
        }
        record.put(streams=results, prompt=scale.prompt, frames=scale.frames)
    if task.device.type == "cuda":
        record.put(peak_gb=torch.cuda.max_memory_allocated() / 1e9)
    engine.close()


def _run(engine: LLMEngine, scale: Scale, streams: int, frames: int, first: int) -> dict[str, Any]:
    """Time ``streams`` requests that are all added before the first step.

    Raises:
        RuntimeError: the number of frames is not the requested one.
    """
    settings = sampling(scale.gpt, frames)
    before = engine.metrics()
    began = time.perf_counter()
    engine.add(
        [
            GenerationRequest(
                prompt(scale.gpt, scale.prompt, n), settings, key(n), request_id=f"r{n}"
            )
            for n in range(first, first + streams)
        ]
    )
    made, first_s = 0, 0.0
    while engine.has_unfinished_requests():
        made += sum(len(delta.ids) for output in engine.step() for delta in output.deltas)
        if made and not first_s:
            first_s = time.perf_counter() - began
    seconds = time.perf_counter() - began
    if made != streams * frames:
        raise RuntimeError(f"{made} frames came out of {streams} requests for {frames} each")
    after = engine.metrics()
    steps = after.steps - before.steps
    return {
        "frames_per_s": made / seconds,
        "step_ms": 1000 * seconds / frames,
        "first_s": first_s,
        "host_us": 1e6 * (after.engine_seconds - before.engine_seconds) / steps,
    }
