"""Time steps that draw text ids, as the refining of texts does: one head of a large vocabulary."""

from __future__ import annotations

from typing import Any

from ChatTTS.model.random_numbers import Pass

from .scale import Task
from .steps import load, step_times


def measure(task: Task, dtype: str) -> None:
    """Record the times of a step with each number of streams; see ``steps.step_times``."""
    scale, results = task.scale, dict[str, Any]()
    task.record.put(dtype=dtype, ids=scale.gpt.num_text_tokens, streams=results)
    loaded = load(task, dtype, kind=Pass.REFINE)
    for streams in scale.streams:
        results[str(streams)] = step_times(loaded, streams, task.device)
        task.record.put(streams=results)
