"""The options of replicas, checked before anything starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...checkpoints import assets
from ...checkpoints.assets import AssetFolder
from ...core import Chat
from ...errors import ConfigError
from ...model.cuda.triton_folder import keep_triton_kernels
from ...model.devices.placement import choose_placement
from ...model.velocity.configs import ParallelConfig
from ...text.named_functions import register_named
from ...utils import machine

# Requests that a replica takes at a time, as a multiple of its share of all running requests: when
# another replica is gone, this one takes its requests, too.
_ROOM = 2
# Calls beside the spoken requests: recordings to encode, texts to refine.
_OTHER_CALLS = 8
# Autoscaling: the part of its share that a replica runs on average, and the time for which there
# are more or fewer requests before replicas come or go. One that comes loads its model for long.
_TARGET, _UP_SECONDS, _DOWN_SECONDS = 0.75, 5.0, 300.0


@dataclass(frozen=True)
class LoadOptions:
    """The model that every replica loads; plain data that travels to the replicas.

    Attributes:
        source: of the checkpoint: ``bundled``, ``huggingface`` or ``custom``.
        path: folder of a custom checkpoint; on a cluster every host must have it there.
        device: such as ``cuda``; ``None`` means the best available one of each host.
        dtype: of the language model.
        threads: CPU threads of each rank.
        memory: size of the KV cache, such as ``16 sequences``.
        kv_cache_dtype: see ``CacheConfig``.
        tensor_parallel_size, pipeline_parallel_size: see ``ParallelConfig``. The ranks of a replica
            are processes on its host.
        adapters: the names and folders of adapters; on a cluster every host must have them there.
        normalizers: the functions of languages, as ``register_named`` takes them.

    Raises:
        ConfigError: there are no such numbers of ranks.
    """

    source: str
    path: str | None
    device: str | None
    dtype: str
    threads: int
    memory: str
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    adapters: tuple[tuple[str, str], ...] = ()
    normalizers: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        ParallelConfig(self.tensor_parallel_size, self.pipeline_parallel_size)

    @property
    def ranks(self) -> int:
        """The number of ranks of a replica."""
        return self.tensor_parallel_size * self.pipeline_parallel_size

    def folder(self) -> AssetFolder:
        """Return the checkpoint's folder on this host.

        Raises:
            AssetError: it is missing or incomplete.
        """
        return assets.locate(self.source, None if self.path is None else Path(self.path))

    def load(self) -> Chat:
        """Return a ``Chat`` with the model.

        Raises:
            ChatTTSError: it cannot be loaded; the message names the cause.
        """
        keep_triton_kernels()
        chat = Chat()
        register_named(chat.normalizer, dict(self.normalizers))
        chat.load_or_raise(
            self.source,
            custom_path=self.path,
            device=self.device,
            use_vllm=True,
            dtype=self.dtype,
            num_threads=self.threads,
            kv_memory=self.memory,
            kv_cache_dtype=self.kv_cache_dtype,
            tensor_parallel_size=self.tensor_parallel_size,
            pipeline_parallel_size=self.pipeline_parallel_size,
            adapter=dict(self.adapters) or None,
        )
        return chat


@dataclass(frozen=True)
class ReplicaOptions:
    """Numbers of replicas.

    Attributes:
        replicas: at the start.
        least, most: bounds of autoscaling; equal to ``replicas`` where there is none.
        running: requests that all replicas together run at a time.

    Raises:
        ConfigError: the numbers contradict each other.
    """

    replicas: int
    least: int
    most: int
    running: int

    def __post_init__(self) -> None:
        if self.least < 1:
            raise ConfigError("at least one replica is needed: --min-replicas must be 1 or more")
        if not self.least <= self.replicas <= self.most:
            raise ConfigError(
                f"--data-parallel-size is {self.replicas}, which is not between --min-replicas "
                f"({self.least}) and --max-replicas ({self.most})"
            )

    @classmethod
    def of(cls, replicas: int, least: int | None, most: int | None, running: int) -> ReplicaOptions:
        """Return the options of the command line, where bounds may be missing."""
        fewest = replicas if least is None else least
        return cls(replicas, fewest, replicas if most is None else most, running)

    @property
    def is_fixed(self) -> bool:
        """Return whether the number of replicas stays."""
        return self.least == self.most

    @property
    def share(self) -> int:
        """A replica's share of the running requests, when all are spread over the fewest."""
        return math.ceil(self.running / self.replicas)

    @property
    def most_ongoing(self) -> int:
        """Requests that a replica takes at a time; further ones wait for a replica."""
        return _ROOM * self.share + _OTHER_CALLS

    def check_here(self, load: LoadOptions) -> None:
        """Check that the replicas fit on this machine.

        Raises:
            ConfigError: there are too few cores or GPUs.
        """
        self.check_cores(load, machine.usable_cores())
        placement = choose_placement(load.device, load.dtype)
        if placement.device.type == "cuda":
            if placement.device.index is not None:
                raise ConfigError(
                    "each replica has its own GPU: give --device cuda without a number"
                )
            if (needed := self.most * load.ranks) > (devices := torch.cuda.device_count()):
                raise ConfigError(
                    f"{self._named(load)} need {needed} GPUs, and there are {devices}: use fewer "
                    "replicas or ranks"
                )

    def check_cores(self, load: LoadOptions, cores: float) -> None:
        """Check that the replicas fit.

        Args:
            cores: that there are.

        Raises:
            ConfigError: there are too few cores.
        """
        if (needed := self.most * load.ranks * load.threads) > cores:
            raise ConfigError(
                f"{self._named(load)} of {load.threads} threads need {needed} cores, and there "
                f"are {cores:g}: use fewer replicas{' or ranks' * (load.ranks > 1)} or fewer "
                "--threads"
            )

    def _named(self, load: LoadOptions) -> str:
        ranks = f" of {load.ranks} ranks" if load.ranks > 1 else ""
        return f"{self.most} replicas{ranks}"

    def as_deployment(self, load: LoadOptions, *, needs_gpu: bool) -> dict[str, Any]:
        """Return the options of the Ray Serve deployment."""
        options: dict[str, Any] = {
            "max_ongoing_requests": self.most_ongoing,
            "ray_actor_options": {
                "num_cpus": load.threads * load.ranks,
                "num_gpus": load.ranks * needs_gpu,
            },
        }
        if self.is_fixed:
            return {**options, "num_replicas": self.replicas}
        scaling = {
            "min_replicas": self.least,
            "initial_replicas": self.replicas,
            "max_replicas": self.most,
            "target_ongoing_requests": max(1.0, _TARGET * self.share),
            "upscale_delay_s": _UP_SECONDS,
            "downscale_delay_s": _DOWN_SECONDS,
        }
        return {**options, "autoscaling_config": scaling}


def threads_per_rank(given: int | None, ranks: int) -> int:
    """Return the threads of a rank: those that are given, or a part of this machine's cores.

    Args:
        given: the threads that the caller wants, if any.
        ranks: of all replicas together.

    Raises:
        ConfigError: the number is out of range.
    """
    if given is not None:
        return machine.checked_threads(given)
    return max(1, int(machine.usable_cores()) // max(1, ranks))
