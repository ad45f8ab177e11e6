"""Starts, the first on a machine and those after it: how long they take, and what memory."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from comparison import Side
from step_limit import StepWork, weight_bytes

from ChatTTS.config import Config
from ChatTTS.model.velocity.configs import CacheConfig


@dataclass(frozen=True)
class Start:
    """One start.

    Attributes:
        import_s: from the process's start until everything is imported.
        load_s: of the checkpoint.
        grown: bytes: the most in memory since then, less what was there after the imports.
    """

    import_s: float
    load_s: float
    grown: int


def measure_starts(side: Side, folder: Path, threads: int, config: Config) -> dict[str, Any]:
    """Start ``side`` twice, each time in a new process; its cache folder is empty at first.

    Returns:
        ``first`` and ``second``, see :class:`Start`; in bytes ``weights``, ``pool`` (as asked for:
        its pages are touched only when they are used) and ``beyond``: what the second start took
        beside the weights, ``beyond_at_first`` the same of the first one.
    """
    (first, sizes), (second, _) = (_start(side, folder, threads) for _ in range(2))
    dtype = sizes["dtype"]
    language = weight_bytes(config.gpt, config.embed, side.load["dtype"], dtype)
    weights = language + sizes["audio"]
    position = StepWork.of(config.gpt, side.load["dtype"], dtype).position_bytes
    return {
        "first": asdict(first),
        "second": asdict(second),
        "dtype": dtype,
        "weights": weights,
        "pool": sizes["blocks"] * CacheConfig.block_size * position,
        "beyond": second.grown - weights,
        "beyond_at_first": first.grown - weights,
    }


def _start(side: Side, folder: Path, threads: int) -> tuple[Start, dict[str, Any]]:
    """A start, and what the loaded model says of its sizes."""
    begun = time.perf_counter()
    with side.worker(threads) as worker:
        resident = worker.call("prepare")["resident"]
        import_s = time.perf_counter() - begun
        loaded = worker.call("load", folder=str(folder), threads=threads, **side.load)
        sizes = worker.call("sizes")
    return Start(import_s, loaded["load_s"], sizes["peak"] - resident), sizes
