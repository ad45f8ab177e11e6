"""The command ``python -m recipes.voice STAGE``: one stage of the recipe, or all."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from ChatTTS.errors import ChatTTSError
from ChatTTS.model.devices.placement import choose_placement

from .language_model import SIZES
from .run import Run
from .stages import STAGES, run_stage
from .training import Budget, use_fast_products

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stage that the arguments select.

    Args:
        argv: the arguments after the program's name; those of the process by default.

    Returns:
        The exit status: 0, 1 after an error, 130 after Ctrl-C.
    """
    args = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True
    )
    if args.threads:
        torch.set_num_threads(args.threads)
    device = choose_placement(args.device).audio_device
    use_fast_products(device)
    run = Run(
        out=args.out,
        teacher=args.teacher or args.out / "teacher",
        device=device,
        seed=args.seed,
        budgets=dict.fromkeys(STAGES, Budget(args.steps, args.minutes, args.run_minutes)),
        shards=args.shards,
        part=args.part,
        parts=args.parts,
        size=args.size,
        positions=args.positions,
        compiled=args.compile,
        known=args.known,
        workers=args.workers,
        clock=time.process_time if args.cpu_time else time.monotonic,
    )
    logger.info("%s: %s", args.stage, STAGES[args.stage].what)
    try:
        run_stage(args.stage, run)
    except KeyboardInterrupt:
        logger.warning("interrupted; the same command goes on from here")
        return 130
    except ChatTTSError as error:
        logger.error("%s", error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    stages = "\n".join(f"  {name:<10}{stage.what}" for name, stage in STAGES.items())
    parser = argparse.ArgumentParser(
        prog="python -m recipes.voice",
        description=f"Make the bundled voice.\n\nstages, in their order:\n{stages}\n\n"
        "A stage that was stopped, by Ctrl-C too, goes on when the same command is given again.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("stage", choices=STAGES, metavar="STAGE", help="one of those above")
    parser.add_argument("--out", type=Path, required=True, help="folder for everything made")
    parser.add_argument("--teacher", type=Path, help="the teacher's files (default OUT/teacher)")
    parser.add_argument(
        "--minutes", type=float, default=120.0, help="of training, over all runs (%(default)g)"
    )
    parser.add_argument(
        "--steps", type=int, help="of training, over all runs; with them, minutes end it earlier"
    )
    parser.add_argument("--run-minutes", type=float, help="save and stop this run after so many")
    parser.add_argument(
        "--shards", type=int, default=300, help="of speech, 3 minutes each (default %(default)s)"
    )
    parser.add_argument("--part", type=int, default=0, help="speak every PARTS-th shard from PART")
    parser.add_argument("--parts", type=int, default=1, help="processes that speak")
    parser.add_argument("--seed", type=int, default=1, help="of everything (default %(default)s)")
    parser.add_argument("--device", help="such as cpu or cuda:0; the best there is by default")
    parser.add_argument("--threads", type=int, help="of torch on the CPU")
    parser.add_argument("--size", choices=SIZES, default="small", help="of the language model")
    parser.add_argument("--positions", type=int, help="of a step of the language model")
    parser.add_argument(
        "--compile", action="store_true", help="compile the language model; needs a C++ compiler"
    )
    parser.add_argument(
        "--workers", type=int, default=0, help="processes that prepare batches, for a GPU"
    )
    parser.add_argument(
        "--known", type=Path, help="an asset/ folder whose weights trainings begin with"
    )
    parser.add_argument(
        "--cpu-time", action="store_true", help="minutes are those of the process, not of the wall"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
