"""The executor of one worker in this process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from ....utils.fair_lock import ComputeLock, NoLock
from ...cuda import failures
from ...cuda.capture_thread import Capturable
from ...cuda.graphs import give_back_memory
from ..configs import CacheConfig, EngineConfig
from ..plan import Pending, StepPlan
from .base import ExecutorBase

if TYPE_CHECKING:
    from ...embed import Embed
    from ...tokenizer import Tokenizer
    from ..worker import Worker

_FORKED = (
    "this process is a fork of the one that loaded the model, and CUDA works in that one alone, so "
    "the child has no engine: start it with multiprocessing's method 'spawn' and load the model "
    "there, or fork before the model is loaded"
)


class InProcessExecutor(ExecutorBase):
    """One worker in this process, called directly.

    Args:
        compute_lock: held while the worker computes, as by all other work that needs the same
            cores; none by default.
        tokenizer: the checkpoint's, if it has been read already.
    """

    _lost: ClassVar[tuple[Worker, ...]] = ()

    def __init__(
        self,
        config: EngineConfig,
        compute_lock: ComputeLock | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self._config = config
        self._compute_lock = compute_lock or NoLock()
        self._tokenizer = tokenizer
        self._worker: Worker | None = None

    def init_workers(self) -> None:
        from ..worker import Worker  # here, because it imports the kernels

        self._worker = Worker(self._config, self._tokenizer)
        loaded = self._worker.model
        self.checkpoint, self.placement = loaded.config, loaded.placement
        self.end_of_text = loaded.tokenizer.end_of_refine
        self.gives_attention = loaded.gives_attention
        self.adapters = {adapter.name: adapter.info for adapter in loaded.adapters}

    @property
    def embed(self) -> Embed:
        return self._loaded.model.embed

    @property
    def capturable(self) -> Capturable | None:
        return None if self._worker is None else self._worker.capturable

    def init_cache(self) -> CacheConfig:
        cache = self._loaded.plan_cache()
        self._loaded.init_cache(cache)
        self.depth, self.max_steps = self._loaded.depth, self._loaded.max_steps
        return cache

    def execute_model(self, plan: StepPlan) -> Pending:
        return self._compute_lock.run(partial(self._loaded.execute_model, plan))

    def advice(self, error: BaseException) -> str:
        return "start the process again" if failures.is_lasting(error) else super().advice(error)

    def after_fork(self) -> str | None:
        if self._worker is None or self._worker.model.placement.device.type != "cuda":
            return None
        self._keep(self._worker)
        self._worker = None
        return _FORKED

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if not worker.close():
            self._keep(worker)
            failures.LOST.set()
            return
        del worker
        give_back_memory()

    @classmethod
    def _keep(cls, worker: Worker) -> None:
        """Keep a worker until the process ends: to free it would wait for a lost device."""
        cls._lost = (*cls._lost, worker)

    @property
    def _loaded(self) -> Worker:
        if self._worker is None:
            raise RuntimeError("the executor has no worker: it was not started, or is closed")
        return self._worker
