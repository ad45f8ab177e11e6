"""The kernels of a decode step and the time of each."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from .scale import Task
from .steps import Loaded, load
from .timing import synchronize


def measure(task: Task, dtype: str) -> None:
    """Record the time of each kernel, for every number of streams."""
    loaded = load(task, dtype)
    task.record.put(dtype=dtype, positions=task.scale.positions)
    results = {}
    for streams in task.scale.streams:
        results[str(streams)] = _kernels(loaded, streams, task.device)
        task.record.put(streams=results)


def _kernels(loaded: Loaded, streams: int, device: torch.device) -> dict[str, Any]:
    """Return calls and microseconds of each kernel in a step, and their sums."""
    count = loaded.scale.steps
    on_cuda = device.type == "cuda"
    tables = loaded.lay_out(streams)
    loaded.steps.run(tables, 1)()
    synchronize(device)
    activity = ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU
    with profile(activities=[activity]) as seen:
        loaded.steps.run(tables, count)()
        synchronize(device)
    wanted = DeviceType.CUDA if on_cuda else DeviceType.CPU
    own = "self_device_time_total" if on_cuda else "self_cpu_time_total"
    kernels = [
        {"name": e.key, "calls": e.count / count, "us": getattr(e, own) / count}
        for e in seen.key_averages()
        if e.device_type == wanted and getattr(e, own) > 0
    ]
    if not kernels:
        raise RuntimeError("the profiler saw no kernel: it cannot read this device")
    kernels.sort(key=lambda kernel: -kernel["us"])
    return {
        "kernels": kernels,
        "launches": sum(kernel["calls"] for kernel in kernels),
        "busy_us": sum(kernel["us"] for kernel in kernels),
    }
