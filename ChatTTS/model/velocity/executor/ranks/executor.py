"""An executor whose workers are ranks: processes of this machine, or actors of a cluster."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..... import errors
from .....config import Config
from .....errors import ChatTTSError, EngineUnavailableError
from .....utils.fair_lock import ComputeLock, NoLock
from .....utils.progress import progress
from .....version import __version__
from ....devices.placement import choose_placement
from ....embed import Embed, load_embed
from ....llama.config import read_llama_shape
from ....tokenizer import Tokenizer
from ...configs import CacheConfig, EngineConfig
from ...model_loader import asset_folder, shard_of
from ...plan import Pending, StepPlan, StepResult
from ..base import ExecutorBase
from .channels import FORKED, RankGroup, RankLostError
from .messages import Allocate, Allocated, Failed, Loaded, Ran, Run, Start, decode, encode

T = TypeVar("T")

# Starts the ranks of an engine.
StartRanks = Callable[[EngineConfig], RankGroup]


class RanksExecutor(ExecutorBase):
    """Gives every plan to all ranks; the first rank of the last stage gives the result.

    Args:
        start: starts the ranks.
        compute_lock: held while the ranks of a single stage compute; none by default.
        tokenizer: the checkpoint's, if it has been read already.
    """

    def __init__(
        self,
        config: EngineConfig,
        start: StartRanks,
        compute_lock: ComputeLock | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        # Actors run in other folders.
        folder = config.model.folder.absolute()
        self._config = replace(config, model=replace(config.model, folder=folder))
        self._start = start
        self._compute_lock = compute_lock or NoLock()
        self._tokenizer = tokenizer
        self._group: RankGroup | None = None
        self._loaded: list[Loaded] = []
        self.stages = self.depth = config.parallel.pipeline_parallel_size
        # Plans that were sent, and those of them whose replies were read.
        self._sent = self._answered = 0
        self._drawn: dict[int, list[NDArray[np.int64]]] = {}

    @cached_property
    def embed(self) -> Embed:
        # The ranks have their own, so it is read for scripts that ask for it alone.
        file = asset_folder(self._config.model.folder) / "Embed.safetensors"
        return load_embed(file, self.checkpoint.embed, self.placement)

    def init_workers(self) -> None:
        self._read_sizes()
        self._group = group = self._start(self._config)
        try:
            group.user = weakref.ref(self)
            starts = [
                Start(
                    self._config,
                    rank,
                    group.address,
                    group.port,
                    group.threads,
                    group.devices[rank],
                )
                for rank in range(len(group.channels))
            ]
            self._loaded = self._ask(starts, Loaded, "loading the ranks")
            self._check_equal()
        except BaseException:
            self.close()
            raise
        self.gives_attention = all(loaded.gives_attention for loaded in self._loaded)

    def init_cache(self) -> CacheConfig:
        size = sum(loaded.block_bytes for loaded in self._loaded)
        most = min(loaded.max_blocks for loaded in self._loaded)
        cache = self._config.cache.with_blocks(size, most)
        try:
            self._ask([Allocate(cache)] * len(self._loaded), Allocated)
        except BaseException:
            self.close()
            raise
        return cache

    def execute_model(self, plan: StepPlan) -> Pending:
        if self.stages > 1:
            return self._send(plan)
        result = self._compute_lock.run(lambda: self._send(plan)())
        return lambda: result

    def after_fork(self) -> str | None:
        return FORKED

    def close(self) -> None:
        if self._group is not None:
            self._group.close()
        self._group = None

    def _send(self, plan: StepPlan) -> Pending:
        drawn = {seq_id: np.stack(ids) for seq_id, ids in self._drawn.items()}
        self._drawn.clear()
        message = encode(Run(plan, drawn))
        for channel in self._open.channels:
            channel.send(message)
        self._sent += 1
        return partial(self._result, plan, self._sent)

    def _result(self, plan: StepPlan, number: int) -> StepResult:
        """Wait for the result of a plan; replies to plans that were given up are dropped."""
        while self._answered < number:
            replies = [self._reply(rank, Ran).result for rank in range(len(self._loaded))]
            self._answered += 1
        result = replies[-self._config.parallel.tensor_parallel_size]
        if self.stages > 1:
            drawing = [work.seq_id for work in plan.work if work.draws]
            for seq_id, ids in zip(drawing, result.ids, strict=True):
                self._drawn.setdefault(seq_id, []).append(ids)
        return replace(result, attention=summed([reply.attention for reply in replies]))

    def _ask(self, messages: Sequence[object], kind: type[T], what: str | None = None) -> list[T]:
        """Send each rank its message; return the replies of this kind."""
        for channel, message in zip(self._open.channels, messages, strict=True):
            channel.send(encode(message))
        with progress(what or "", "rank", what is not None, len(messages)) as bar:
            found = []
            for rank in range(len(messages)):
                found.append(self._reply(rank, kind))
                bar.update()
        return found

    def _reply(self, rank: int, kind: type[T]) -> T:
        reply = decode(self._open.channels[rank].receive())
        if isinstance(reply, Failed):
            self._open.close()
            raise error_of(reply)
        assert isinstance(reply, kind)
        return reply

    def _read_sizes(self) -> None:
        """Read what the engine itself needs, and check that the model can be divided.

        Raises:
            ChatTTSError: a file cannot be used, or a size does not fit.
        """
        config, folder = self._config, asset_folder(self._config.model.folder)
        self.checkpoint = Config.from_file(folder / "config.json")
        shape = read_llama_shape(folder / "gpt" / "config.json", self.checkpoint.gpt)
        shard_of(config.parallel, shape, config.parallel.world_size - 1)
        self.placement = choose_placement("cpu", config.model.dtype)
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(folder / "tokenizer")
            self._tokenizer.check_ids(self.checkpoint.gpt.num_text_tokens)
        self.end_of_text = self._tokenizer.end_of_refine

    def _check_equal(self) -> None:
        for loaded in self._loaded:
            if loaded.version != __version__:
                raise EngineUnavailableError(
                    f"a rank has version {loaded.version} of this package, and the engine "
                    f"{__version__}: install one version everywhere"
                )
            if loaded.about != self._loaded[0].about:
                raise EngineUnavailableError(
                    f"ranks compute with different kernels ({self._loaded[0].about}; "
                    f"{loaded.about}), which give different bits: use machines of one kind"
                )

    @property
    def _open(self) -> RankGroup:
        if self._group is None:
            raise RankLostError("the ranks were not started, or are closed: load the model again")
        return self._group


def error_of(failed: Failed) -> Exception:
    """Return the error that ended a rank."""
    kind = getattr(errors, failed.kind, None)
    if isinstance(kind, type) and issubclass(kind, ChatTTSError):
        return kind(failed.message)
    return RuntimeError(f"{failed.kind} in a rank: {failed.message}")


def summed(
    parts: Sequence[Mapping[int, NDArray[np.float32]]],
) -> dict[int, NDArray[np.float32]]:
    """Return the attention of all heads; where a rank has none of a head, it gave zeros."""
    return {row: sum((part[row] for part in parts[1:]), first) for row, first in parts[0].items()}
