"""Time steps whose attention fetches ahead against steps that fetch nothing.

With few rows it fetches weights, and with many the next keys and values.

The ways take turns, so that a change of the GPU's clock is seen in all of them. Their bits are
compared as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import torch

from ChatTTS.model.kernels.cuda import prefetch
from ChatTTS.model.velocity.plan import StepResult

from .scale import Task
from .steps import Loaded, kernel_times, load, step_times

# Bytes from one fetch to the next; the cache may bring less than a whole line.
WAYS = {"nothing": None, "lines of 128": 128, "lines of 64": 64, "lines of 32": 32}
_TURNS = 2
_STREAMS = (1, 4, 16, 256)


def measure(task: Task, dtype: str) -> None:
    """Record milliseconds of a step, by streams and by what is fetched, of each turn.

    Raises:
        RuntimeError: bits depend on what is fetched; the record says where.
    """
    own = tuple(count for count in _STREAMS if count <= max(task.scale.streams))
    task = replace(task, scale=replace(task.scale, streams=own))
    results: dict[str, dict[str, list[float]]] = {
        str(count): {way: [] for way in WAYS} for count in own
    }
    task.record.put(dtype=dtype, streams=results, differ=[], default=prefetch.LINE)
    loaded = load(task, dtype)
    expected: dict[int, StepResult] = {}
    differ: list[str] = []
    for _ in range(_TURNS):
        for way, line in WAYS.items():
            with fetching(line):
                loaded.capture()
                for count in own:
                    found = _bits(loaded, count)
                    if not _equal(found, expected.setdefault(count, found)):
                        differ.append(f"{way}, {count} streams")
                    times = step_times(loaded, count, task.device)
                    results[str(count)][way].append(times["step_ms"]["median"])
                    task.record.put(streams=results, differ=differ)
    kernels = {}
    for way in ("nothing", f"lines of {prefetch.LINE}"):
        with fetching(WAYS[way]):
            loaded.capture()
            kernels[way] = kernel_times(loaded, own[0], task.device)
            task.record.put(kernels=kernels)
    if differ:
        raise RuntimeError(f"other bits in {dtype}: {'; '.join(differ)}")


@contextmanager
def fetching(line: int | None) -> Iterator[None]:
    """Fetch a line at each so many bytes in what is captured; ``None`` fetches nothing."""
    wanted = {prefetch.FETCH_VARIABLE: str(int(line is not None))}
    with patch.dict(os.environ, wanted), patch.object(prefetch, "LINE", line or prefetch.LINE):
        yield


def _bits(loaded: Loaded, streams: int) -> StepResult:
    # Timed steps of other numbers of streams have written into blocks that these read.
    loaded.pool.normal_(generator=torch.Generator(loaded.pool.device).manual_seed(streams))
    return loaded.lay_out(streams).run(loaded.scale.steps)()


def _equal(found: StepResult, expected: StepResult) -> bool:
    same = np.array_equal(found.ids, expected.ids)
    return same and torch.equal(found.hiddens, expected.hiddens)
