"""The option of ``chattts serve`` by which the model has a process of its own."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .console import Console, UsageError
from .model import ModelChoice
from .options import Parser
from .replicas import load_options

if TYPE_CHECKING:
    from ..serving.replicas.front import ReplicatedModel


def add_model_process_option(parser: Parser) -> None:
    """Add the option."""
    group = parser.add_argument_group("process")
    group.add_argument(
        "--model-process",
        dest="model_process",
        action="store_const",
        const=True,
        help="run the model in a process of its own, so that neither it nor the connections wait "
        "for the other's Python; it is started again if it ends, and streams go on (default on a "
        "GPU)",
    )
    group.add_argument(
        "--no-model-process",
        dest="model_process",
        action="store_const",
        const=False,
        help="run the model in the server's process (default on a CPU)",
    )


def check_model_process(args: argparse.Namespace) -> None:
    """Check that no option contradicts a process for the model that is asked for.

    Raises:
        UsageError: one does.
    """
    if args.model_process and (reason := _hindrance(args)) is not None:
        raise UsageError(f"--model-process {reason}: leave it out")


def has_model_process(args: argparse.Namespace) -> bool:
    """Return whether the model gets a process of its own: by an option, or since it is on a GPU."""
    if args.model_process is not None:
        return bool(args.model_process)
    if _hindrance(args) is not None:
        return False
    if args.device is not None:  # the model's process looks whether it is there
        return str(args.device).startswith("cuda")
    import torch

    return torch.cuda.is_available()


def _hindrance(args: argparse.Namespace) -> str | None:
    """Return why the model can have no process of its own, behind the name of the option."""
    others = {
        "--data-parallel-size": args.data_parallel_size is not None,
        "--ray-address": args.ray_address is not None,
        "--idle-unload": args.idle_unload is not None,
        "--distributed-executor-backend ray": args.distributed_executor_backend == "ray",
    }
    for name, is_given in others.items():
        if is_given:
            return f"does not go with {name}"
    return None if os.name == "posix" else "needs Linux or macOS"


@contextmanager
def model_process(
    args: argparse.Namespace, running: int, choice: ModelChoice, console: Console
) -> Iterator[ReplicatedModel]:
    """Run the model in a process of its own within this context.

    Args:
        running: requests that run at a time.

    Raises:
        ChatTTSError: the model cannot be loaded; the message names the cause and the remedy.
    """
    from ..serving.replicas.model_process.supervisor import model_in_process

    load = load_options(args, choice, memory=f"{running} sequences")
    console.note(f"loading the model: {choice.label}")
    with model_in_process(load, args.log_format, console.level) as model:
        yield model
