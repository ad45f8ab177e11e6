"""A worker: the model on one device, and the block pools of its KV cache."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import ConfigError
from ...utils import machine
from ..cuda.capture_thread import Capturable
from ..cuda.failures import is_lasting, is_out_of_memory, patience, wait_for
from ..cuda.graphs import ENGINE_PRIORITY, give_back_memory
from ..llama.shard import Communicator
from ..tokenizer import Tokenizer
from .configs import CacheConfig, EngineConfig
from .first_launches import first_plans
from .loaded_model import LoadedModel
from .model_loader import ModelLoader
from .model_runner import EagerRunner, ModelRunner, StepRunner
from .plan import (
    BlockMove,
    MoveKind,
    Pending,
    StepMemoryError,
    StepPlan,
    StepResult,
)

logger = logging.getLogger(__name__)

_NO_STREAM = nullcontext()
# The default size of the pool, as a part of the memory that is free once the model is loaded.
_SHARE = 0.25


class Worker:
    """Runs plans on one device.

    Args:
        config: the engine's settings.
        tokenizer: the checkpoint's, if it has been read already.
        rank: the number of the rank, if the engine has several.
        communicator: how it reaches the others.

    Attributes:
        depth, max_steps, capturable: see ``ExecutorBase``.
    """

    def __init__(
        self,
        config: EngineConfig,
        tokenizer: Tokenizer | None = None,
        rank: int = 0,
        communicator: Communicator | None = None,
    ) -> None:
        self._config = config
        self.model: LoadedModel = ModelLoader(config, tokenizer, rank, communicator).load()
        self._pool = self._host = torch.empty(0)
        self._runner: ModelRunner | None = None
        self._is_lost = False
        self._patience = patience()
        device = self.model.placement.device
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(  # type: ignore[no-untyped-call, unused-ignore]
                device, priority=ENGINE_PRIORITY
            )
        self.depth = self.max_steps = 1
        self.capturable: Capturable | None = None

    def plan_cache(self) -> CacheConfig:
        """Return the KV cache's config with the numbers of blocks for a single rank.

        Raises:
            ConfigError: there is no memory for a single block.
        """
        size = self.model.llama.block_bytes
        return self._config.cache.with_blocks(size, self.max_blocks())

    def init_cache(self, cache: CacheConfig) -> None:
        """Allocate the block pools.

        Args:
            cache: the config with the numbers of blocks.

        Raises:
            ConfigError: there is not enough memory.
        """
        llama = self.model.llama
        blocks, host_blocks = cache.num_blocks or 0, cache.num_host_blocks
        try:
            self._pool = llama.new_pool(blocks)
            self._host = torch.empty(
                host_blocks, *self._pool.shape[1:], dtype=self._pool.dtype, device="cpu"
            )
        except (MemoryError, OSError, OverflowError, RuntimeError, ValueError) as error:
            size = llama.block_bytes
            raise ConfigError(
                f"there is no memory for a KV cache of {blocks * size >> 20} MB and "
                f"{host_blocks * size >> 20} MB to swap to ({error}): give less kv_memory or "
                "swap_memory"
            ) from error
        self._runner = runner = ModelRunner(self.model, self._new_step_runner())
        self.depth, self.max_steps = runner.depth, runner.max_steps
        if self.model.compiles and self.model.capturer is None:
            self._launch_all(cache)
        logger.info(
            "KV cache: %d blocks of %d positions, %d MB at most",
            blocks,
            cache.block_size,
            blocks * llama.block_bytes >> 20,
        )

    def execute_model(
        self, plan: StepPlan, drawn: Mapping[int, NDArray[np.int64]] = MappingProxyType({})
    ) -> Pending:
        """Run a plan; where ``depth`` is above 1, only start it.

        Args:
            drawn: for a rank whose stage is not the last: ids that the last one drew since the plan
                before, by the number of the sequence.

        Raises:
            StepMemoryError: the device has no memory for the work.
        """
        runner = self._runner
        assert runner is not None
        try:
            with self._stream_context():
                if drawn and not self.model.shard.is_last:
                    runner.append(drawn)
                if plan.ended:
                    runner.forget(plan.ended)
                for move in plan.moves:
                    self._move(move)
                if plan.new:
                    runner.add(plan.new)
                try:
                    pending = runner.execute_model(plan)
                except RuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    raise _lack_of_memory(error) from error
        except BaseException as error:
            self._note_loss(error)
            raise
        return partial(self._result, pending) if self.depth > 1 else pending

    def _result(self, pending: Pending) -> StepResult:
        try:
            return pending()
        except BaseException as error:
            self._note_loss(error)
            raise

    def _note_loss(self, error: BaseException) -> None:
        """Note an error after which the device does nothing more for this process."""
        self._is_lost = self._is_lost or is_lasting(error)

    def close(self) -> bool:
        """Wait for the plans in flight: captured steps must not be freed while they run.

        Returns:
            Whether they are done. If not, the device is lost, and this object must be kept.
        """
        if self._stream is not None and not self._is_lost:
            try:
                wait_for(self._stream.record_event(), self._patience)
            except RuntimeError as error:  # of a step; its callers have got it
                logger.debug("the device ended in an error: %s", error)
                self._is_lost = True
        return not self._is_lost

    def _stream_context(self) -> AbstractContextManager[Any]:
        """Return a context that puts steps on their CUDA stream, where there is one.

        Other work on the GPU then does not wait for them.
        """
        return _NO_STREAM if self._stream is None else torch.cuda.stream(self._stream)

    def _new_step_runner(self) -> StepRunner:
        """Return a step runner, of captured steps if the model runs on Triton kernels."""
        if self.model.capturer is None:
            return EagerRunner(self.model, self._pool)
        from .backends.cuda.graph_runner import new_graph_runner

        self.capturable = runner = new_graph_runner(self.model, self._pool, self._config.scheduler)
        return runner

    def _launch_all(self, cache: CacheConfig) -> None:
        """Launch each number of rows once, so that no request waits for a compilation.

        All ranks of a model do this together.
        """
        from .backends.cuda.decode_steps import buckets

        limits = self._config.scheduler
        plans = first_plans(
            buckets(limits.max_num_batched_tokens),
            limits,
            cache,
            num_codebooks=self.model.embed.num_codebooks,
            max_positions=self.model.shape.max_position_embeddings,
        )
        for plan in plans:
            assert self._runner is not None
            if plan.work:
                self.execute_model(plan)
            else:
                self._runner.forget(plan.ended)

    def _move(self, move: BlockMove) -> None:
        device, host = self._pool, self._host
        source, target = {
            MoveKind.COPY: (device, device),
            MoveKind.OUT: (device, host),
            MoveKind.IN: (host, device),
        }[move.kind]
        target[move.target].copy_(source[move.source])

    def max_blocks(self) -> int:
        """Return how many blocks the device's pool has if the caller gives no size.

        It is what ``max_num_seqs`` sequences can use, within a part of the free memory.

        Raises:
            ConfigError: there is no memory for a single one, and the caller gives no size.
        """
        wanted = self._config.cache
        positions = self.model.shape.max_position_embeddings
        sequences = wanted.sequences or self._config.scheduler.max_num_seqs
        useful = sequences * -(-positions // wanted.block_size)
        blocks = min(useful, int(self._free_memory() * _SHARE) // self.model.llama.block_bytes)
        if blocks < 1 and wanted.memory is None and wanted.num_blocks is None:
            raise ConfigError(
                f"there is no memory for the KV cache ({self._free_memory() >> 20} MB are "
                "free): end something else, or say how much to take with kv_memory"
            )
        return blocks

    def _free_memory(self) -> int:
        device = self.model.placement.device
        if device.type == "cuda":
            give_back_memory()  # of loading, and of models that were dropped before
            return torch.cuda.mem_get_info(device)[0]
        return machine.available_memory() // self._config.parallel.world_size


def _lack_of_memory(error: RuntimeError) -> StepMemoryError:
    """Return the error of a step for which the device has no memory."""
    reason = (str(error).splitlines() or [""])[0]
    return StepMemoryError(
        f"the device has no memory left for a step ({reason}): try again, load with less "
        "kv_memory, or end what else uses the device"
    )
