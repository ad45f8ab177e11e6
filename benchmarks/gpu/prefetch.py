"""Time steps of few rows whose attention fetches weights ahead against steps that fetch nothing.

Some ways also give products twice as many programs. The ways take turns, so that a change of the
GPU's clock is seen in all of them. Their bits are compared as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import torch

from ChatTTS.model.cuda.kernels import ahead, products
from ChatTTS.model.velocity.plan import StepResult

from .scale import Task
from .steps import Loaded, kernel_times, load, step_times


@dataclass(frozen=True)
class Way:
    """How steps are recorded.

    Attributes:
        line: bytes from one fetch to the next, which may bring less than a whole line of the
            cache; ``None`` to fetch nothing.
        outputs: of a program in the products that are added to the hidden states.
    """

    line: int | None
    outputs: int = products.PLAIN_OUTPUTS

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take this way in what is recorded."""
        wanted = {ahead.FETCH_VARIABLE: str(int(self.line is not None))}
        with (
            patch.dict(os.environ, wanted),
            patch.object(ahead, "LINE", self.line or ahead.LINE),
            patch.object(products, "PLAIN_OUTPUTS", self.outputs),
        ):
            yield


_DEFAULT = f"lines of {ahead.LINE}"
WAYS = {
    "nothing": Way(None),
    "lines of 128": Way(128),
    "lines of 64": Way(64),
    "lines of 32": Way(32),
    "nothing, 8 outputs": Way(None, 8),
    "lines of 128, 8 outputs": Way(128, 8),
}
_TURNS = 2
_STREAMS = (1, 4, 16)


def measure(task: Task, dtype: str) -> None:
    """Record milliseconds of a step, by streams and by what is fetched, of each turn.

    On a CPU, whose torch twins do not keep bits, results have to be near each other.

    Raises:
        RuntimeError: bits depend on what is fetched; the record says where.
    """
    own = tuple(count for count in _STREAMS if count <= max(task.scale.streams))
    task = replace(task, scale=replace(task.scale, streams=own))
    results: dict[str, dict[str, list[float]]] = {
        str(count): {name: [] for name in WAYS} for count in own
    }
    task.record.put(dtype=dtype, streams=results, differ=[], default=_DEFAULT)
    loaded = load(task, dtype)
    expected: dict[int, StepResult] = {}
    differ: list[str] = []
    for _ in range(_TURNS):
        for name, way in WAYS.items():
            with way.taken():
                loaded.record()
                for count in own:
                    found = _bits(loaded, count)
                    if not _equal(found, expected.setdefault(count, found), task.device):
                        differ.append(f"{name}, {count} streams")
                    times = step_times(loaded, count, task.device)
                    results[str(count)][name].append(times["step_ms"]["median"])
                    task.record.put(streams=results, differ=differ)
    kernels = {}
    for name in ("nothing", _DEFAULT):
        with WAYS[name].taken():
            loaded.record()
            kernels[name] = kernel_times(loaded, own[0], task.device)
            task.record.put(kernels=kernels)
    if differ:
        raise RuntimeError(f"other bits in {dtype}: {'; '.join(differ)}")


def _bits(loaded: Loaded, streams: int) -> StepResult:
    tables = loaded.lay_out(streams)
    return loaded.steps.run(tables, loaded.scale.steps)()


def _equal(found: StepResult, expected: StepResult, device: torch.device) -> bool:
    if device.type != "cuda":
        return torch.allclose(found.hiddens, expected.hiddens, rtol=1e-3, atol=1e-3)
    same = np.array_equal(found.ids, expected.ids)
    return same and torch.equal(found.hiddens, expected.hiddens)
