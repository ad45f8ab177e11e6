"""The command ``python -m recipes.fine_tune STAGE``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from ChatTTS.errors import ChatTTSError, ConfigError
from ChatTTS.model.devices.placement import choose_placement

from ..voice.training import Budget
from . import corpus, decoder, evaluate, export, task
from .run import DECODER_MINUTES, PROJECTIONS, Run, Settings, read_settings

logger = logging.getLogger(__name__)

_DESCRIPTION = """\
Fine-tune a checkpoint on recordings of a voice: low-rank products on its Llama, by peft, and with
--decoder also its Decoder.

  python -m recipes.fine_tune all --recordings recordings/ --out build/anna --name anna
  chattts say "hello there." --adapter build/anna/adapter
  python -m recipes.fine_tune merge --out build/anna      a checkpoint of its own, in merged/

Stages: prepare (recordings to codes), train, decoder (tune the Decoder too), export (adapter/, and
decoder/asset with a tuned Decoder), evaluate, merge (merged/asset). `all` is all but the last, and
has the stage `decoder` with --decoder. A run that was stopped goes on where it was when the same
command is given again; its settings are kept in the folder, so that later commands need only
--out."""
_MINUTES = 20.0
STAGES = ("prepare", "train", "decoder", "export", "evaluate", "merge", "all")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a stage, or all.

    Args:
        argv: the arguments after the program's name; those of the process by default.

    Returns:
        The exit status: 0, 1 after an error, 130 after Ctrl-C.
    """
    args = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        run_stage(args.stage, run_of(args))
    except KeyboardInterrupt:
        logger.warning("interrupted; the same command goes on from here")
        return 130
    except ChatTTSError as error:
        logger.error("%s", error)
        return 1
    return 0


def run_stage(stage: str, run: Run) -> None:
    """Run one stage; ``all`` stops after a training that is not finished."""
    if stage in ("prepare", "all"):
        corpus.main(run)
    if stage in ("train", "all") and not task.main(run):
        logger.info("train: not finished yet; the same command goes on")
        return
    is_asked = stage == decoder.NAME or (stage == "all" and run.with_decoder)
    if is_asked and not decoder.main(run):
        logger.info("%s: not finished yet; the same command goes on", decoder.NAME)
        return
    if stage in ("export", "all"):
        export.main(run)
    if stage in ("evaluate", "all"):
        evaluate.main(run)
    if stage == "merge":
        export.merge(run)


def run_of(args: argparse.Namespace) -> Run:
    """Return the run of the command line; what it leaves out is as the run in the folder began.

    Raises:
        ConfigError: there is no run, and no recordings are given.
    """
    if args.threads:
        torch.set_num_threads(args.threads)
    values: dict[str, Any] = read_settings(args.out)
    given = {f.name: getattr(args, f.name) for f in fields(Settings)}
    values |= {name: value for name, value in given.items() if value is not None}
    if "recordings" not in values:
        raise ConfigError(f"no run began in {args.out}: say where the recordings are")
    values["targets"] = tuple(values.get("targets", PROJECTIONS))
    minutes = _MINUTES if args.steps is None and args.minutes is None else args.minutes
    budget = Budget(args.steps, minutes, args.run_minutes)
    is_default = args.decoder_steps is None and args.decoder_minutes is None
    decoder_minutes = DECODER_MINUTES if is_default else args.decoder_minutes
    return Run(
        args.out,
        Settings(**values),
        choose_placement(args.device).audio_device,
        budget,
        args.workers,
        Budget(args.decoder_steps, decoder_minutes, args.run_minutes),
        args.decoder,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.fine_tune",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("stage", choices=STAGES, metavar="STAGE", help="one of those above")
    parser.add_argument("--out", type=Path, required=True, help="folder for everything made")
    parser.add_argument("--recordings", help="folder with transcripts, or one sound file")
    parser.add_argument("--transcript", help="what one sound file says")
    parser.add_argument("--checkpoint", help="bundled (default), huggingface, or a folder")
    parser.add_argument("--name", help="of the voice (default voice)")
    parser.add_argument("--speaker", help="a name or string; by default the likeliest is chosen")
    parser.add_argument("--rank", type=int, help="of each product (default 8)")
    parser.add_argument("--alpha", type=float, help="scale times rank (default 16)")
    parser.add_argument("--targets", nargs="+", choices=PROJECTIONS, help="default: all seven")
    parser.add_argument("--rate", type=float, help="learning rate (default 0.001)")
    parser.add_argument(
        "--rehearsal", type=float, help="share of the base's own speech (default 0.4)"
    )
    parser.add_argument("--rehearsed", type=int, help="utterances of that (default 96)")
    parser.add_argument("--tokens", type=int, help="positions of a step (default 3072)")
    parser.add_argument("--corruption", type=float, help="largest share of frames that are changed")
    parser.add_argument("--own-frames", type=float, help="largest share of the model's own frames")
    parser.add_argument("--own-temperature", type=float, help="at which these are drawn")
    parser.add_argument("--seed", type=int, help="of everything (default 1)")
    parser.add_argument("--decoder", action="store_true", help="let `all` tune the Decoder too")
    parser.add_argument(
        "--decoder-rate", type=float, help="learning rate of the Decoder (default 0.0003)"
    )
    parser.add_argument("--decoder-steps", type=int, help="of its training, over all runs")
    parser.add_argument(
        "--decoder-minutes",
        type=float,
        help=f"of its training, over all runs (default {DECODER_MINUTES:g})",
    )
    parser.add_argument("--steps", type=int, help="of the adapter's training, over all runs")
    parser.add_argument("--minutes", type=float, help=f"of that (default {_MINUTES:g})")
    parser.add_argument("--run-minutes", type=float, help="save and stop after so many minutes")
    parser.add_argument("--device", help="such as cpu or cuda:0; the best there is by default")
    parser.add_argument("--threads", type=int, help="of torch on the CPU")
    parser.add_argument("--workers", type=int, help="processes that recognise (default: all cores)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
