"""Time and memory of the first start on a machine and of a later one."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ChatTTS.config import Config
from ChatTTS.model.velocity.configs import CacheConfig

from ...common.comparison import Side
from ...common.step_limit import StepWork, weight_bytes


@dataclass(frozen=True)
class Start:
    """One start.

    Attributes:
        import_s: seconds from the process's start until everything is imported.
        load_s: seconds to load the checkpoint.
        grown: bytes by which the peak memory exceeds the memory after the imports.
    """

    import_s: float
    load_s: float
    grown: int


def measure_starts(side: Side, folder: Path, threads: int, config: Config) -> dict[str, Any]:
    """Start ``side`` twice, each time in a new process; the first finds an empty cache folder.

    Returns:
        ``first`` and ``second``, see :class:`Start`. In bytes: ``weights``; ``pool``, as large as
        requested, although its pages are touched only in use; ``beyond``, by which the second
        start grew more than its weights; ``beyond_at_first``, by which the first one did.
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
    """Start once; return the times and the sizes that the loaded model reports."""
    begun = time.perf_counter()
    with side.start_child(threads) as child:
        resident = child.call("prepare")["resident"]
        import_s = time.perf_counter() - begun
        loaded = child.call("load", folder=str(folder), threads=threads, **side.load)
        sizes = child.call("sizes")
    return Start(import_s, loaded["load_s"], sizes["peak"] - resident), sizes
