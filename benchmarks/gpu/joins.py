"""The share of time that the device waits for the host while requests join and leave."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any
from unittest.mock import patch

import torch

from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.velocity.llm_engine import LLMEngine
from ChatTTS.model.velocity.model_runner import ModelRunner
from ChatTTS.model.velocity.plan import Pending, StepPlan

from .model import engine_args, traffic
from .scale import Scale, Task
from .timing import wait_for_captures

# The device may wait this long, as a share of all time.
AIM = 0.05
# Requests begin together; after this share of the time their lengths have spread them.
_START = 0.25


@dataclass
class SubmitClock:
    """Marks on the device's stream before and after the work of each plan.

    A device that is busy passes from one mark to the next at once. Where it had nothing to do, it
    reaches the mark before the next work when the host submits it.

    Args:
        device: without CUDA, the host's clock is read instead, since work is done at once there.
    """

    device: torch.device
    _marks: list[tuple[Any, Any]] = field(default_factory=list)

    def execute_model(self, runner: ModelRunner, plan: StepPlan) -> Pending:
        """Take the place of ``ModelRunner.execute_model``."""
        before = self._mark()
        pending = _execute_model(runner, plan)
        self._marks.append((before, self._mark()))
        return pending

    def start_over(self) -> None:
        """Forget all marks."""
        self._marks.clear()

    def seconds(self) -> tuple[float, float]:
        """Return the seconds from the first mark to the last, and those without work."""
        marks = self._marks
        if self.device.type == "cuda":
            marks[-1][1].synchronize()
        waited = sum(self._between(ended[1], begun[0]) for ended, begun in pairwise(marks))
        return self._between(marks[0][0], marks[-1][1]), waited

    def _mark(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        new_event: Any = torch.cuda.Event
        mark = new_event(enable_timing=True)
        mark.record()
        return mark

    def _between(self, first: Any, second: Any) -> float:
        if self.device.type != "cuda":
            return float(second - first)
        return float(first.elapsed_time(second)) / 1000


_execute_model = ModelRunner.execute_model


def measure(task: Task, dtype: str) -> None:
    """Record the traffic's joins a second, steps and waits, for the two largest numbers of streams.

    ``waited`` contains a few microseconds for the marks of each plan.
    """
    scale, record = task.scale, task.record
    record.put(dtype=dtype, seconds_each=scale.traffic_seconds, aim=AIM)
    engine = LLMEngine.from_engine_args(engine_args(task, dtype))
    wait_for_captures([engine.executor.capturable])
    requests, clock, results = _unpredictable(scale), SubmitClock(task.device), {}
    running = 0
    with patch.object(
        ModelRunner, "execute_model", lambda runner, plan: clock.execute_model(runner, plan)
    ):
        for streams in sorted(scale.streams)[-2:]:
            engine.add(list(islice(requests, streams - running)))
            running = streams
            _serve(engine, requests, _START * scale.traffic_seconds)
            clock.start_over()
            before = engine.metrics()
            joins = _serve(engine, requests, scale.traffic_seconds)
            seconds, waited = clock.seconds()
            after = engine.metrics()
            steps = after.steps - before.steps
            results[str(streams)] = {
                "waited": waited / seconds,
                "joins_per_s": joins / seconds,
                "step_ms": 1000 * seconds / steps,
                "host_us": 1e6 * (after.engine_seconds - before.engine_seconds) / steps,
            }
            record.put(streams=results)
    engine.close()


def _unpredictable(scale: Scale) -> Iterator[GenerationRequest]:
    """Yield traffic whose requests may end at any step: no plan can know when."""
    for request in traffic(scale.gpt):
        yield replace(request, sampling=replace(request.sampling, min_new=0))


def _serve(engine: LLMEngine, requests: Iterator[GenerationRequest], seconds: float) -> int:
    """Run steps for some seconds; each request that ends is followed by another.

    Returns:
        How many joined.

    Raises:
        RuntimeError: a request failed.
    """
    joined, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        outputs = engine.step()
        for output in outputs:
            if output.error is not None:
                raise RuntimeError(f"{output.request_id} failed: {output.error}")
        ended = sum(output.finished for output in outputs)
        engine.add(list(islice(requests, ended)))
        joined += ended
    return joined
