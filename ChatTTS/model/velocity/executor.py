"""Who carries out the plans: here, a worker in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ...utils.fair_lock import ComputeLock, NoLock
from .configs import CacheConfig, EngineConfig, SchedulerConfig
from .plan import Pending, StepPlan, StepResult

if TYPE_CHECKING:
    from ...config import Config
    from ..embed import Embed
    from .worker import Worker


class ExecutorBase(ABC):
    """What an engine needs of its workers, however many there are and wherever they run.

    Attributes:
        model: the sizes of the checkpoint and its voice's defaults.
        embed: embeddings and heads, as the workers have them.
        end_of_text: the id that ends a text answer.
        depth: plans that may be in flight; with more than one the workers compute while the next
            plan is made.
        most_steps: of a plan.
    """

    model: Config
    embed: Embed
    end_of_text: int
    depth: int = 1
    most_steps: int = 1

    @abstractmethod
    def init_workers(self) -> None:
        """Load the model.

        Raises:
            ChatTTSError: a file cannot be used.
        """

    @abstractmethod
    def init_cache(self) -> CacheConfig:
        """Make the pools of blocks; the answer is the cache's config with the blocks counted.

        Raises:
            ConfigError: the memory does not suffice for a single block.
        """

    def measure(self, scheduler: SchedulerConfig) -> SchedulerConfig:
        """The same with measured costs of a preemption, where they can be measured."""
        return scheduler

    @abstractmethod
    def execute_model(self, plan: StepPlan) -> StepResult:
        """Carry out one step."""

    def submit(self, plan: StepPlan) -> Pending:
        """Begin a step, behind those that were begun before.

        Returns:
            What waits for its result; to be called once, in the order of the plans.
        """
        return partial(self.execute_model, plan)

    @abstractmethod
    def close(self) -> None:
        """Let go of the model and the pools; nothing may be asked afterwards."""


class InProcessExecutor(ExecutorBase):
    """One worker in this process, called directly.

    Args:
        compute_lock: held while the worker computes; none by default.
    """

    def __init__(self, config: EngineConfig, compute_lock: ComputeLock | None = None) -> None:
        self._config = config
        self._compute_lock = compute_lock or NoLock()
        self._worker: Worker | None = None

    def init_workers(self) -> None:
        from .worker import Worker  # with all that computes

        self._worker = Worker(self._config)
        loaded = self._worker.model
        self.model, self.embed = loaded.config, loaded.embed
        self.end_of_text = loaded.tokenizer.end_of_refine

    def init_cache(self) -> CacheConfig:
        cache = self._loaded.init_cache()
        self.depth, self.most_steps = self._loaded.depth, self._loaded.most_steps
        return cache

    def measure(self, scheduler: SchedulerConfig) -> SchedulerConfig:
        if not scheduler.measure_costs or not self._config.cache.host_memory:
            return scheduler
        costs = self._loaded.measure()
        return replace(scheduler, swap_cost=costs.swap, recompute_cost=costs.recompute)

    def execute_model(self, plan: StepPlan) -> StepResult:
        return self._compute_lock.run(lambda: self._loaded.submit(plan)())

    def submit(self, plan: StepPlan) -> Pending:
        # Where nothing is gained by it, a step is not begun before it is waited for.
        return self._loaded.submit(plan) if self.depth > 1 else super().submit(plan)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None

    @property
    def _loaded(self) -> Worker:
        if self._worker is None:
            raise RuntimeError("the executor has no worker: it was not started, or is closed")
        return self._worker
