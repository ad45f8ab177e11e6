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
        action="store_true",
        help="run the model in a process of its own, so that neither it nor the connections wait "
        "for the other's Python; it is started again if it ends, and streams go on",
    )


def wants_model_process(args: argparse.Namespace) -> bool:
    """Return whether the model shall have a process of its own.

    Raises:
        UsageError: options contradict each other.
    """
    if not args.model_process:
        return False
    others = {
        "--data-parallel-size": args.data_parallel_size is not None,
        "--ray-address": args.ray_address is not None,
        "--idle-unload": args.idle_unload is not None,
        "--distributed-executor-backend ray": args.distributed_executor_backend == "ray",
    }
    for name, is_given in others.items():
        if is_given:
            raise UsageError(f"--model-process does not go with {name}: leave one out")
    if os.name != "posix":
        raise UsageError("--model-process needs Linux or macOS: leave it out")
    return True


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
