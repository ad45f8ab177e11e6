"""The engine for a caller who names none."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..config import GPTConfig
from .cuda.support import why_no_kernels
from .devices.placement import Placement
from .kernels.cpu import library
from .kernels.cpu.build import BuildError
from .llama.config import LlamaShape

logger = logging.getLogger(__name__)

# From this size on velocity is faster than the standard engine on torch's operators, too.
_LARGE = GPTConfig.hidden_size * GPTConfig.intermediate_size


@dataclass(frozen=True)
class EngineOptions:
    """Settings of the language model; see ``Chat.load``."""

    use_vllm: bool | None = None
    use_flash_attn: bool = False
    compile: bool = False
    experimental: bool = False
    enable_cache: bool = True
    kv_memory: int | str | None = None
    kv_cache_dtype: str = "auto"
    batch_invariant: bool | None = None
    num_threads: int | None = None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    distributed_executor_backend: str | None = None
    adapters: Mapping[str, Path] = field(default_factory=dict)

    @property
    def is_divided(self) -> bool:
        """Return whether several ranks are wanted, or another way to run one."""
        sizes = self.tensor_parallel_size, self.pipeline_parallel_size
        return sizes != (1, 1) or self.distributed_executor_backend is not None


def asks_for_standard(options: EngineOptions, placement: Placement) -> bool:
    """Return whether only the standard engine does what the caller asks for."""
    compiles = options.compile and placement.device.type == "cuda"
    return compiles or not options.enable_cache


def asks_for_velocity(options: EngineOptions, placement: Placement) -> bool:
    """Return whether only velocity does what the caller asks for."""
    return (
        options.is_divided
        or options.kv_memory is not None
        or options.kv_cache_dtype != "auto"
        or options.batch_invariant is not None
        or placement.quantization is not None
    )


def velocity_is_faster(shape: LlamaShape, placement: Placement) -> bool:
    """Return whether velocity has kernels here, or is faster without; they may be compiled now.

    Raises:
        ConfigError: ``CHATTTS_KERNELS`` names kernels that cannot run here.
    """
    kind = placement.device.type
    if kind == "cuda":
        return why_no_kernels(placement.device, shape.head_dim) is None
    if kind != "cpu":
        return False
    if str(placement.dtype).removeprefix("torch.") in library.KINDS:
        try:
            library.load()
        except BuildError as error:
            if not _is_large(shape):
                logger.warning(
                    "the standard engine computes, since velocity's faster kernels cannot run "
                    "here: %s",
                    error,
                )
        else:
            return True
    return _is_large(shape)


def _is_large(shape: LlamaShape) -> bool:
    return shape.hidden_size * shape.intermediate_size >= _LARGE
