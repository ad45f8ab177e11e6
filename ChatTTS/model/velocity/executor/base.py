"""The interface of executors, which run the plans of the scheduler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...cuda.capture_thread import Capturable
from ...lora.names import Adapters
from ..configs import CacheConfig
from ..plan import Pending, StepPlan

if TYPE_CHECKING:
    from ....config import Config
    from ...devices.placement import Placement
    from ...embed import Embed


class ExecutorBase(ABC):
    """The interface between an engine and its workers, wherever they run.

    Attributes:
        checkpoint: its config: the sizes, and the defaults of its voice.
        placement: the device and the dtype of ``embed``.
        end_of_text: the id that ends a text answer.
        depth: how many plans may be in flight. With more than one, the workers compute while the
            next plan is made.
        stages: of a pipeline. With more than one, plans in flight move different sequences.
        max_steps: the most steps of a plan.
        gives_attention: whether the workers give the attention of requests' alignment heads.
        adapters: the loaded adapters by their names.
    """

    checkpoint: Config
    placement: Placement
    end_of_text: int
    depth: int = 1
    stages: int = 1
    max_steps: int = 1
    gives_attention: bool = True
    adapters: Adapters = MappingProxyType({})

    @property
    @abstractmethod
    def embed(self) -> Embed:
        """The embeddings and heads: those of a worker in this process, else a copy of the file's.

        Raises:
            AssetError: the file cannot be used.
        """

    @property
    def capturable(self) -> Capturable | None:
        """The steps on a device that are still to be captured, if they ever are."""
        return None

    @abstractmethod
    def init_workers(self) -> None:
        """Load the model.

        Raises:
            ChatTTSError: a file cannot be used.
        """

    @abstractmethod
    def init_cache(self) -> CacheConfig:
        """Allocate the block pools; return the KV cache's config with the numbers of blocks.

        Raises:
            ConfigError: there is not enough memory for a single block.
        """

    @abstractmethod
    def execute_model(self, plan: StepPlan) -> Pending:
        """Run a plan after those that were given before.

        Where ``depth`` is 1, the work is done when this returns. Otherwise it has only begun.

        Raises:
            StepMemoryError: the device has no memory for the plan. Later ones may fit.
        """

    def advice(self, error: BaseException) -> str:
        """Return what a caller should do after ``error`` ended a step."""
        return "load the model again"

    def after_fork(self) -> str | None:
        """In a forked child: return why the executor works no more, or ``None`` if it does."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Release the model and the pools. No other method may be called afterwards."""
