"""Ranks as threads of one process, which exchange rows through its memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from queue import Queue
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ChatTTS.model.llama.config import LlamaShape
from ChatTTS.model.llama.shard import Shard
from ChatTTS.model.velocity.configs import EngineConfig, ParallelConfig
from ChatTTS.model.velocity.executor.ranks.executor import summed
from ChatTTS.model.velocity.input_batch import InputBatch
from ChatTTS.model.velocity.loaded_model import LlamaModel
from ChatTTS.model.velocity.plan import Pending, StepPlan, StepResult
from ChatTTS.model.velocity.worker import Worker

# A rank that waits for others as long as this waits in vain.
PATIENCE = 60


def shards(shape: LlamaShape, ranks: int, stages: int = 1) -> list[Shard]:
    """All ranks of all stages, stage after stage."""
    return [Shard(shape, r, ranks, s, stages) for s in range(stages) for r in range(ranks)]


class Turns:
    """Lets one rank compute at a time: what the kernels run on may not know threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self, work: Callable[[], Any]) -> Any:
        with self._lock:
            return work()

    def wait(self, work: Callable[[], Any]) -> Any:
        """Do work that waits for another rank, in the middle of a turn."""
        self._lock.release()
        try:
            return work()
        finally:
            self._lock.acquire()


class Stage:
    """What the ranks of one stage exchange, and what they get from the stage before."""

    def __init__(self, ranks: int) -> None:
        self.barrier = threading.Barrier(ranks, timeout=PATIENCE)
        self.parts: list[Tensor] = [torch.empty(0)] * ranks
        self.incoming: list[Queue[Tensor]] = [Queue() for _ in range(ranks)]


class ThreadPeers:
    """The other ranks of a rank, see ``Communicator``."""

    def __init__(self, shard: Shard, stages: Sequence[Stage], turns: Turns) -> None:
        self._shard, self._stages, self._turns = shard, stages, turns

    def all_gather(self, part: Tensor, columns: Sequence[int]) -> Tensor:
        stage, rank = self._stages[self._shard.stage], self._shard.rank
        assert part.shape[1] == columns[rank]
        stage.parts[rank] = part.clone()
        self._turns.wait(stage.barrier.wait)
        whole = torch.cat(stage.parts, dim=1)
        self._turns.wait(stage.barrier.wait)
        return whole

    def receive(self, rows: Tensor) -> Tensor:
        incoming = self._stages[self._shard.stage].incoming[self._shard.rank]
        rows.copy_(self._turns.wait(partial(incoming.get, timeout=PATIENCE)))
        return rows

    def send(self, rows: Tensor) -> None:
        following = self._stages[self._shard.stage + 1]
        following.incoming[self._shard.rank].put(rows.clone())


def all_communicators(own: Sequence[Shard], turns: Turns) -> list[ThreadPeers]:
    """Communicators for each of these shards, which are all there are."""
    stages = [Stage(own[0].ranks) for _ in range(own[0].stages)]
    return [ThreadPeers(shard, stages, turns) for shard in own]


def side_by_side(works: Sequence[Callable[[], Any]], turns: Turns) -> list[Any]:
    """Run each in a thread of its own; return the results."""
    with ThreadPoolExecutor(len(works)) as threads:
        futures = [threads.submit(turns.take, work) for work in works]
        return [future.result() for future in futures]


class RankedLlama:
    """A Llama of several ranks; every forward runs them side by side.

    Args:
        make: makes the Llama of a rank.
    """

    gives_attention = True

    def __init__(
        self,
        shape: LlamaShape,
        ranks: int,
        stages: int,
        make: Callable[[Shard, ThreadPeers], LlamaModel],
    ) -> None:
        self._shape, self._shards, self._turns = shape, shards(shape, ranks, stages), Turns()
        self._communicators = all_communicators(self._shards, self._turns)
        self.llamas = [make(*pair) for pair in zip(self._shards, self._communicators, strict=True)]
        self._pools: list[Tensor] = []

    def new_pool(self, num_blocks: int) -> Tensor:
        self._pools = [llama.new_pool(num_blocks) for llama in self.llamas]
        for pool in self._pools:
            pool.view(torch.uint8).fill_(0xFF)
        return torch.zeros(num_blocks, 1)

    @property
    def block_bytes(self) -> int:
        return sum(llama.block_bytes for llama in self.llamas)

    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        outs = side_by_side(
            [partial(self._forward, index, batch) for index in range(len(self.llamas))],
            self._turns,
        )
        lasts = [out for out in outs if out is not None]
        for other in lasts[1:]:
            assert torch.equal(lasts[0], other)
        found: Tensor = lasts[0]
        return found

    def _forward(self, index: int, batch: InputBatch) -> Tensor | None:
        shard, communicator = self._shards[index], self._communicators[index]
        if batch.probe is not None:
            batch = replace(batch, probe=batch.probe.again())
        if not shard.is_first:
            rows = torch.empty(len(batch), self._shape.hidden_size)
            batch = replace(batch, given=communicator.receive(rows))
        out = self.llamas[index].forward(batch, self._pools[index])
        if shard.is_last:
            return out
        communicator.send(out)
        return None


class RankedWorker:
    """The workers of several ranks, as one.

    Args:
        config: with the numbers of ranks and stages.

    Attributes:
        gives_attention: whether every rank does.
    """

    def __init__(self, config: EngineConfig) -> None:
        parallel, self._turns = config.parallel, Turns()
        shape = Worker(replace(config, parallel=ParallelConfig())).model.shape
        own = shards(shape, parallel.tensor_parallel_size, parallel.pipeline_parallel_size)
        self._last = parallel.tensor_parallel_size
        self._drawn: dict[int, Any] = {}
        self._workers = [
            Worker(config, rank=rank, communicator=communicator)
            for rank, communicator in enumerate(all_communicators(own, self._turns))
        ]
        self.gives_attention = all(worker.model.gives_attention for worker in self._workers)
        starts = [partial(worker.init_cache, worker.plan_cache()) for worker in self._workers]
        side_by_side(starts, self._turns)
        for worker in self._workers:
            worker._pool.view(torch.uint8).fill_(0xFF)

    def execute_model(self, plan: StepPlan) -> Pending:
        drawn, self._drawn = self._drawn, {}
        works = [partial(_result, worker, plan, drawn) for worker in self._workers]
        results = side_by_side(works, self._turns)
        first = results[-self._last]
        for other in results[-self._last :]:
            assert np.array_equal(other.ids, first.ids)
        drawing = [work.seq_id for work in plan.work if work.draws]
        self._drawn = {seq_id: ids[None] for seq_id, ids in zip(drawing, first.ids, strict=True)}
        attention = summed([result.attention for result in results])
        return lambda: replace(first, attention=attention)


def _result(worker: Worker, plan: StepPlan, drawn: Any) -> StepResult:
    return worker.execute_model(plan, drawn)()
