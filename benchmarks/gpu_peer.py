"""The published package's standard path on the same GPU, where its wheel was given."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from comparison import texts
from gpu_scale import Task
from gpu_sound import whole_checkpoint
from gpu_timing import spread
from worker import Worker

# The folder in which it is installed, apart from ours: both are imported as ``ChatTTS``.
SITE = "CHATTTS_PEER_SITE"
_FRAMES = 100
_RUNS = 2
_STREAMS = (1, 8)


def measure(task: Task) -> None:
    """Its steps, as ``generate`` makes them."""
    site = os.environ.get(SITE)
    if not site:
        task.record.put(
            skipped="no wheel of ChatTTS was given: transformers' Llama with our heads and draws "
            "stands in for it (see standard)"
        )
        return
    scale, record = task.scale, task.record
    folder = whole_checkpoint(task)
    threads = len(os.sched_getaffinity(0))
    paths = [site, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    # Ours would be taken for it.
    own = Path(__file__).parent.parent
    kept = [path for path in paths if path and Path(path).resolve() != own]
    environment = {"PYTHONPATH": os.pathsep.join(kept)}
    frames = min(_FRAMES, scale.frames)
    results: dict[str, Any] = {}
    with Worker(
        "the published package", Path(sys.executable), "gpu_peer_side.py", threads, environment
    ) as worker:
        record.put(**worker.call("load", folder=str(folder), device=scale.device, threads=threads))
        number = 0
        for streams in _STREAMS:
            seconds = []
            for _ in range(_RUNS + 1):
                given = texts(streams, scale.prompt, number)
                answer = worker.call("run", texts=given, frames=frames)
                number += streams
                if answer["frames"] != [frames] * streams:
                    raise RuntimeError(f"it gave {answer['frames']} frames, not {frames} each")
                seconds.append(answer["generate_s"] / frames)
            results[str(streams)] = {"path_ms": spread(seconds[1:])}
            record.put(streams=results, prompt=scale.prompt, frames=frames)
