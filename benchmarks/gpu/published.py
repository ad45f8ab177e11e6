"""The published package's standard path on the same GPU, if its wheel was given."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ..common.child import ChildProcess
from ..common.comparison import texts
from .scale import Task
from .sound import whole_checkpoint
from .timing import spread

# Names the folder in which it is installed. It is kept apart from our package, because both are
# imported as ``ChatTTS``.
SITE = "CHATTTS_PEER_SITE"
_FRAMES = 100
_RUNS = 2
_STREAMS = (1, 8)


def measure(task: Task) -> None:
    """Time the steps of its ``generate``.

    Raises:
        RuntimeError: a text has another number of frames than requested.
    """
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
    # From the repository root our own package would be imported in its place.
    root = Path(__file__).resolve().parents[2]
    kept = [path for path in paths if path and Path(path).resolve() != root]
    environment = {"PYTHONPATH": os.pathsep.join(kept)}
    frames = min(_FRAMES, scale.frames)
    results: dict[str, Any] = {}
    with ChildProcess(
        "the published package",
        Path(sys.executable),
        "benchmarks.common.published",
        threads,
        environment,
        isolated=True,
    ) as child:
        record.put(**child.call("load", folder=str(folder), device=scale.device, threads=threads))
        number = 0
        for streams in _STREAMS:
            seconds = []
            for _ in range(_RUNS + 1):
                given = texts(streams, scale.prompt, number)
                answer = child.call("run", texts=given, frames=frames)
                number += streams
                if answer["frames"] != [frames] * streams:
                    raise RuntimeError(f"it gave {answer['frames']} frames, not {frames} each")
                seconds.append(answer["generate_s"] / frames)
            results[str(streams)] = {"path_ms": spread(seconds[1:])}
            record.put(streams=results, prompt=scale.prompt, frames=frames)
