"""The settings of an engine. Each is declared once, checked, and never changed afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from pathlib import Path
from typing import Any

from ...errors import ConfigError, shown
from ...utils.machine import checked_threads
from ..lora.names import adapter_folders

# The default limits of a step on a GPU.
_GPU_TOKENS, _GPU_SEQS = 512, 256

# The most ranks of a stage, and stages.
_MAX_RANKS = 64
# The most positions of a block or a step, blocks of a pool, and bytes of a pool.
_MAX_POSITIONS, _MAX_BLOCKS, _MAX_BYTES = 2**16, 2**31 - 1, 2**62

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_memory(given: int | str, name: str) -> int:
    """Read a number of bytes, or text such as ``512MB``, ``1.5 GiB`` or ``2g`` (powers of 1024).

    Raises:
        ConfigError: ``given`` is neither; the message names the setting ``name``.
    """
    if isinstance(given, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", given, re.IGNORECASE)
        number = float(match[1]) * _UNITS[match[2].lower()] if match else 0.0
    else:
        is_number = isinstance(given, Real) and not isinstance(given, bool)
        number = given if is_number else 0.0
    # This condition is false for NaN as well.
    if not 1 <= number <= _MAX_BYTES:
        raise ConfigError(
            f"{name} must be bytes or text such as '512MB' or '2GB', not {shown(given)}"
        )
    return int(number)


def parse_sequences(given: int | str | None) -> int | None:
    """Return the number in text such as ``16 sequences``; ``None`` for anything else."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*sequences?\s*", given) if isinstance(given, str) else None
    return int(match[1]) if match else None


def _within(config: Any, **bounds: tuple[int, int]) -> None:
    """Raise ConfigError for the first field of ``config`` that is not within its bounds.

    Kernels count in 32 bits, so a larger number would reach them as another one.
    """
    for name, (low, high) in bounds.items():
        found = getattr(config, name)
        if found is not None and (not isinstance(found, int) or not low <= found <= high):
            raise ConfigError(
                f"{name} must be a whole number of at least {low} and at most {high}, not "
                f"{shown(found)}"
            )


@dataclass(frozen=True)
class ModelConfig:
    """The weights, their precision, and the device that computes.

    Attributes:
        folder: the checkpoint's folder: the one that holds ``asset/``, or that folder itself.
        dtype: ``float32``, ``bfloat16`` or ``float16``; ``auto`` for the fastest dtype of the
            device; or ``int8`` for that one with the Llama's weights in eight bits.
        quantization: ``int8`` for the Llama's weights in eight bits, with any ``dtype``.
        batch_invariant: no bit of a request's codes depends on the requests in its batch.
        device: ``cpu``, ``cuda:0`` and so on; ``None`` takes the best device.
        num_threads: threads of the CPU kernels; ``None`` takes the cores that the process may use.
        adapters: the names and folders of adapters, which requests may name.
    """

    folder: Path
    dtype: str = "float32"
    quantization: str | None = None
    batch_invariant: bool = True
    device: str | None = None
    num_threads: int | None = None
    adapters: tuple[tuple[str, Path], ...] = ()

    def __post_init__(self) -> None:
        if self.quantization not in (None, "int8"):
            raise ConfigError(f"quantization must be 'int8' or None, not {self.quantization!r}")
        if self.num_threads is not None:
            checked_threads(self.num_threads)


@dataclass(frozen=True)
class CacheConfig:
    """The paged KV cache.

    Attributes:
        block_size: positions of a block.
        memory: bytes of the device's pool; ``None`` takes what ``sequences`` of full length need,
            but at most a part of the free memory.
        sequences: how many sequences the pool has room for; ``None`` for ``max_num_seqs``.
        host_memory: bytes of the pool in the host's memory, for requests that are swapped out and
            for evicted prefixes; 0 for none.
        enable_prefix_caching: keep the blocks of prompts for later requests that begin with the
            same tokens.
        kv_cache_dtype: ``int8`` for keys and values in eight bits, on Triton kernels; ``auto`` for
            those of the weights, as which the CPU kernels always have them.
        num_blocks: blocks of the device's pool; ``None`` before they are counted.
        num_host_blocks: blocks of the host's pool.
        block_bytes: the size of a block; 0 before the blocks are counted.
    """

    block_size: int = 32
    memory: int | None = None
    sequences: int | None = None
    host_memory: int = 0
    enable_prefix_caching: bool = True
    kv_cache_dtype: str = "auto"
    num_blocks: int | None = None
    num_host_blocks: int = 0
    block_bytes: int = 0

    def __post_init__(self) -> None:
        _within(
            self,
            block_size=(1, _MAX_POSITIONS),
            memory=(1, _MAX_BYTES),
            host_memory=(0, _MAX_BYTES),
            num_blocks=(1, _MAX_BLOCKS),
            num_host_blocks=(0, _MAX_BLOCKS),
        )
        if self.kv_cache_dtype not in ("auto", "int8"):
            raise ConfigError(
                f"kv_cache_dtype must be 'auto' or 'int8', not {shown(self.kv_cache_dtype)}"
            )
        if self.sequences is not None and self.sequences < 1:
            raise ConfigError("kv_memory must have room for at least 1 sequence")

    def with_blocks(self, block_bytes: int, max_blocks: int) -> CacheConfig:
        """Return this config with the numbers of blocks.

        Args:
            block_bytes: the size of a block, on all ranks together.
            max_blocks: blocks of the device's pool, if no size is given.

        Raises:
            ConfigError: the given size has no room for a single block.
        """
        blocks = self.num_blocks or max_blocks
        if self.num_blocks is None and self.memory is not None:
            blocks = self.memory // block_bytes
            if blocks < 1:
                raise ConfigError(
                    f"kv_memory is {self.memory} bytes, and one block of {self.block_size} "
                    f"positions takes {block_bytes}: give more"
                )
        # More than this is more than any memory has; its allocation says so.
        blocks, host = (min(n, _MAX_BLOCKS) for n in (blocks, self.host_memory // block_bytes))
        return replace(self, num_blocks=blocks, num_host_blocks=host, block_bytes=block_bytes)

    @property
    def capacity(self) -> int:
        """Positions that the device's pool holds; 0 before its blocks are counted."""
        return (self.num_blocks or 0) * self.block_size


@dataclass(frozen=True)
class SchedulerConfig:
    """Settings of the scheduler.

    Attributes:
        max_num_batched_tokens: the most positions that a step computes, of prompts and of new
            tokens together.
        max_num_seqs: the most sequences that run at once.
        policy: ``fcfs`` (first come, first served) or ``priority`` (lower values first).
        ageing: seconds of waiting that count as much as one step of priority, so that no request
            waits for ever.
    """

    max_num_batched_tokens: int = 128
    max_num_seqs: int = 64
    policy: str = "fcfs"
    ageing: float = 1.0

    def __post_init__(self) -> None:
        _within(self, max_num_batched_tokens=(1, _MAX_POSITIONS), max_num_seqs=(1, _MAX_POSITIONS))
        if self.policy not in ("fcfs", "priority"):
            raise ConfigError(f"policy must be 'fcfs' or 'priority', not {self.policy!r}")
        if not isinstance(self.ageing, (int, float)) or not self.ageing > 0:
            raise ConfigError(f"ageing must be above 0, not {shown(self.ageing)}")


@dataclass(frozen=True)
class ParallelConfig:
    """The ranks that compute one model together; see ``llama/shard.py``.

    Attributes:
        tensor_parallel_size: ranks that share each layer.
        pipeline_parallel_size: stages; each has ``tensor_parallel_size`` ranks.
        distributed_executor_backend: ``mp`` for processes on this machine, ``ray`` for actors of a
            Ray cluster; ``None`` takes ``mp`` if there is more than one rank.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    distributed_executor_backend: str | None = None

    def __post_init__(self) -> None:
        bounds = (1, _MAX_RANKS)
        _within(self, tensor_parallel_size=bounds, pipeline_parallel_size=bounds)
        if self.distributed_executor_backend not in (None, "mp", "ray"):
            raise ConfigError(
                "distributed_executor_backend must be 'mp', 'ray' or None, not "
                f"{shown(self.distributed_executor_backend)}"
            )

    @property
    def is_divided(self) -> bool:
        """Return whether several ranks are wanted, or another way to run one."""
        return self.world_size > 1 or self.distributed_executor_backend is not None

    @property
    def world_size(self) -> int:
        """The number of all ranks."""
        return self.tensor_parallel_size * self.pipeline_parallel_size


@dataclass(frozen=True)
class EngineConfig:
    """All settings of an engine."""

    model: ModelConfig
    cache: CacheConfig = CacheConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    parallel: ParallelConfig = ParallelConfig()

    def __post_init__(self) -> None:
        if self.model.adapters and self.parallel.is_divided:
            raise ConfigError(
                "adapters need a model that is not divided: leave out tensor_parallel_size, "
                "pipeline_parallel_size and distributed_executor_backend, or merge the adapter "
                "into a checkpoint"
            )


@dataclass(frozen=True)
class EngineArgs:
    """The settings as users give them, in one flat object; see the configs for their meaning.

    Attributes:
        model: the checkpoint's folder.
        kv_memory: the size of the KV cache: bytes, or text such as ``2GB``, or text such as
            ``16 sequences`` for what 16 sequences of full length need.
        swap_memory: the size of the pool in host memory: bytes, or text such as ``2GB``.
        adapters: a folder, whose adapter has the name ``default``; or folders by names.
        max_num_batched_tokens, max_num_seqs: by default what suits ``device``; if that is ``None``,
            what suits a CPU.
    """

    model: str | Path
    dtype: str = "float32"
    quantization: str | None = None
    batch_invariant: bool = True
    device: str | None = None
    num_threads: int | None = None
    adapters: str | Path | Mapping[str, str | Path] | None = None
    block_size: int = CacheConfig.block_size
    kv_memory: int | str | None = None
    swap_memory: int | str | None = None
    enable_prefix_caching: bool = True
    kv_cache_dtype: str = CacheConfig.kv_cache_dtype
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    policy: str = SchedulerConfig.policy
    ageing: float = SchedulerConfig.ageing
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    distributed_executor_backend: str | None = None

    def create_engine_config(self) -> EngineConfig:
        """Return the checked configs.

        Raises:
            ConfigError: a value is invalid; the message names it.
        """
        sequences = parse_sequences(self.kv_memory)
        memory = None
        if self.kv_memory is not None and sequences is None:
            memory = parse_memory(self.kv_memory, "kv_memory")
        host = 0 if self.swap_memory is None else parse_memory(self.swap_memory, "swap_memory")

        adapters = tuple(adapter_folders(self.adapters).items())

        def settings_of(config: type) -> dict[str, Any]:
            """Return the arguments whose names are fields of ``config``."""
            return {f.name: getattr(self, f.name) for f in fields(config) if hasattr(self, f.name)}

        return EngineConfig(
            model=ModelConfig(
                folder=Path(self.model), **settings_of(ModelConfig) | {"adapters": adapters}
            ),
            cache=CacheConfig(
                memory=memory, sequences=sequences, host_memory=host, **settings_of(CacheConfig)
            ),
            scheduler=SchedulerConfig(**settings_of(SchedulerConfig) | self._limits),
            parallel=ParallelConfig(**settings_of(ParallelConfig)),
        )

    @property
    def _limits(self) -> dict[str, int]:
        """The limits of a step: a GPU computes many rows in the time of one."""
        on_gpu = (self.device or "").startswith("cuda")
        usual = SchedulerConfig()
        tokens, seqs = self.max_num_batched_tokens, self.max_num_seqs
        if tokens is None:
            tokens = _GPU_TOKENS if on_gpu else usual.max_num_batched_tokens
        if seqs is None:
            seqs = _GPU_SEQS if on_gpu else usual.max_num_seqs
        return {"max_num_batched_tokens": tokens, "max_num_seqs": seqs}
