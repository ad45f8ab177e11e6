"""Time steps whose results lie in pinned memory of the host against steps that keep them.

The last launch of a step writes its results into the host's memory. The other way is memory of the
device, and a copy behind the steps of a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .scale import Task
from .steps import Loaded, load
from .timing import DeviceSpan, spread, synchronize


def measure(task: Task, dtype: str) -> None:
    """Record milliseconds of a step, by streams and by the place of the results.

    ``pinned`` is what the engine does; ``device`` leaves the results on the device, and ``copied``
    copies them to the host once for all steps of a round.
    """
    scale, results = task.scale, dict[str, Any]()
    task.record.put(dtype=dtype, streams=results)
    loaded = load(task, dtype)
    for streams in scale.streams:
        results[str(streams)] = {"pinned": _times(loaded, streams, task.device)}
        task.record.put(streams=results)
    steps = loaded.steps
    steps._results = steps._results.to(task.device)
    loaded.capture()
    for streams in scale.streams:
        source = steps._results[: scale.steps, :streams]
        pinned = task.device.type == "cuda"
        host = torch.empty(source.shape, dtype=source.dtype, device="cpu", pin_memory=pinned)
        fetch = _fetching(source, host)
        results[str(streams)]["device"] = _times(loaded, streams, task.device)
        results[str(streams)]["copied"] = _times(loaded, streams, task.device, fetch)
        task.record.put(streams=results)


def _fetching(source: torch.Tensor, host: torch.Tensor) -> Callable[[], Any]:
    return lambda: host.copy_(source, non_blocking=True)


def _times(
    loaded: Loaded, streams: int, device: torch.device, fetch: Callable[[], Any] = lambda: None
) -> dict[str, float]:
    """Return milliseconds on the device of a step.

    Args:
        fetch: is called behind the steps of a round, within their time.
    """
    count, seconds = loaded.scale.steps, []
    for _ in range(loaded.scale.rounds + 2):
        own = loaded.lay_out(streams)
        own.run(1)
        synchronize(device)
        span = DeviceSpan(device)
        own.run(count)
        fetch()
        seconds.append(span.seconds() / count)
    return spread(seconds[2:])
