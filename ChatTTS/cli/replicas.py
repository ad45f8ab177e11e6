"""Options of ``chattts serve`` for replicas, and the model that they give."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .console import Console, UsageError
from .model import ModelChoice
from .options import Parser, adapter_options, named_normalizers

if TYPE_CHECKING:
    from ..serving.replicas.front import ReplicatedModel
    from ..serving.replicas.options import LoadOptions

_RUNNING = 16  # requests of a replica, without --max-running


def add_replica_options(parser: Parser) -> None:
    """Add the options for replicas."""
    group = parser.add_argument_group("replicas (need Ray: the extra `scale`)")
    group.add_argument(
        "--data-parallel-size",
        type=int,
        metavar="N",
        help="run N replicas of the model, each with its own cores or GPU; streams survive the "
        "crash of one",
    )
    group.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="run them on the Ray cluster with this head, host:port or auto; without "
        "--data-parallel-size use the application that runs there",
    )
    group.add_argument(
        "--min-replicas", type=int, metavar="N", help="fewest replicas; more come with the load"
    )
    group.add_argument("--max-replicas", type=int, metavar="N", help="most replicas")


def wants_replicas(args: argparse.Namespace) -> bool:
    """Return whether replicas are asked for.

    Raises:
        UsageError: options contradict each other.
    """
    if args.data_parallel_size is None:
        for name in ("min_replicas", "max_replicas"):
            if getattr(args, name) is not None:
                raise UsageError(
                    f"--{name.replace('_', '-')} is for replicas: give --data-parallel-size as well"
                )
        if args.ray_address is not None and _ranks(args) != 1:
            raise UsageError(
                "the replicas of a running application have their own ranks: leave out "
                "--tensor-parallel-size and --pipeline-parallel-size, or give --data-parallel-size"
            )
    elif args.data_parallel_size < 1:
        raise UsageError("--data-parallel-size must be 1 or more")
    elif args.distributed_executor_backend == "ray":
        raise UsageError(
            "the ranks of a replica are processes on its host: leave out "
            "--distributed-executor-backend ray"
        )
    return args.data_parallel_size is not None or args.ray_address is not None


def default_running(args: argparse.Namespace) -> int | None:
    """Return the most running requests of all replicas; ``None`` without replicas."""
    return _RUNNING * (args.data_parallel_size or 1) if wants_replicas(args) else None


@contextmanager
def replicated(
    args: argparse.Namespace, running: int, choice: ModelChoice, console: Console
) -> Iterator[ReplicatedModel]:
    """Run replicas by the options, or use those of a cluster, within this context.

    Args:
        running: requests that all replicas together run at a time.

    Raises:
        ChatTTSError: they cannot run; the message names the cause and the remedy.
    """
    from ..serving.replicas.options import ReplicaOptions
    from ..utils.ray_environment import prepare

    size = args.data_parallel_size
    options = None
    if size is not None:
        options = ReplicaOptions.of(size, args.min_replicas, args.max_replicas, running)
    replicas = 1 if options is None else options.most
    share = running if options is None else options.share
    load = load_options(args, choice, memory=f"{share} sequences", replicas=replicas)
    if options is not None and args.ray_address is None:
        options.check_here(load)
    prepare("chattts serve with replicas", private_cluster=args.ray_address is None)
    where = "" if args.ray_address is None else f" on {args.ray_address}"
    console.note(f"starting {size} replicas{where}" if size else f"using the replicas{where}")
    from ..serving.replicas.on_ray.cluster import replicated_model

    with replicated_model(load, options, args.ray_address) as model:
        yield model


def load_options(
    args: argparse.Namespace, choice: ModelChoice, *, memory: str, replicas: int = 1
) -> LoadOptions:
    """Return the model that a process loads by the options.

    Args:
        memory: the KV cache, unless ``--memory`` sets one.
        replicas: processes that share the cores of this machine.

    Raises:
        ConfigError: a number is out of range.
    """
    from ..serving.replicas.options import LoadOptions, threads_per_rank

    return LoadOptions(
        source=choice.source,
        path=None if choice.path is None else str(choice.path.resolve()),
        device=args.device,
        dtype=args.dtype,
        threads=threads_per_rank(args.threads, replicas * _ranks(args)),
        memory=args.memory or memory,
        kv_cache_dtype=args.kv_cache_dtype,
        tensor_parallel_size=args.tensor_parallel_size,
        pipeline_parallel_size=args.pipeline_parallel_size,
        adapters=tuple(
            (name, str(path.resolve())) for name, path in adapter_options(args.adapter).items()
        ),
        normalizers=tuple(named_normalizers(args.normalizer).items()),
    )


def _ranks(args: argparse.Namespace) -> int:
    return int(args.tensor_parallel_size * args.pipeline_parallel_size)
