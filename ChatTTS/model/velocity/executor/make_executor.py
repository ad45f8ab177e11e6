"""The choice of an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....utils.fair_lock import ComputeLock
from ..configs import EngineConfig
from .base import ExecutorBase
from .in_process import InProcessExecutor

if TYPE_CHECKING:
    from ...tokenizer import Tokenizer


def make_executor(
    config: EngineConfig,
    compute_lock: ComputeLock | None = None,
    tokenizer: Tokenizer | None = None,
) -> ExecutorBase:
    """Return the executor that the config names.

    Args:
        compute_lock: held while workers compute on this machine's cores; none by default.
        tokenizer: the checkpoint's, if it has been read already.

    Raises:
        EngineUnavailableError: what it needs is not installed.
    """
    backend, ranks = config.parallel.distributed_executor_backend, config.parallel.world_size
    if backend is None and ranks == 1:
        return InProcessExecutor(config, compute_lock, tokenizer)
    from .ranks.executor import RanksExecutor

    if backend == "ray":
        from .ranks.ray_actors import start_actors

        return RanksExecutor(config, start_actors, compute_lock, tokenizer)
    from .ranks.processes import start_processes

    return RanksExecutor(config, start_processes, compute_lock, tokenizer)
