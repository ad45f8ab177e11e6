"""The command ``python -m recipes.bundled_voice STAGE``: one stage of the recipe, or all."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ChatTTS.errors import ChatTTSError
from ChatTTS.model.placement import choose_placement

from .checkpoints import read_position
from .data import Corpus
from .run import Run
from .training import Budget

logger = logging.getLogger(__name__)

_DESCRIPTION = """\
Make the bundled voice from nothing, on a CPU or a GPU.

  python -m recipes.bundled_voice all --out build/voice                  everything, in 4 hours
  python -m recipes.bundled_voice all --out build/voice --minutes 60     in one hour
  python -m recipes.bundled_voice codec --out build/voice --minutes 20   one stage
  python -m recipes.bundled_voice gpt --out build/voice --run-minutes 9  go on with one for a while

A stage that was stopped, by Ctrl-C too, goes on where it was when the same command is given again.
To train one for longer, give it more minutes. The teacher is flite: on Debian, `apt install flite
wamerican`."""


@dataclass(frozen=True)
class Stage:
    """A part of the recipe.

    Attributes:
        name: name on the command line.
        module: the module with the stage's function, which takes a :class:`Run`.
        what: one line that says what the stage does.
        share: share of all minutes of training; 0 for a stage that does not train.
        function: name of the function.
    """

    name: str
    module: str
    what: str
    share: float = 0.0
    function: str = "main"

    def function_of_run(self) -> Callable[[Run], object]:
        """Import the stage's module and return its function; other stages are not imported."""
        module = importlib.import_module(f".{self.module}", __package__)
        found: Callable[[Run], object] = getattr(module, self.function)
        return found


STAGES = (
    Stage("data", "prepare", "texts spoken by flite, kept under data/"),
    Stage("codec", "codec", "speech to codes and back to mels", share=0.15),
    Stage("vocoder", "vocoder", "mels to sound", share=0.15),
    Stage("gpt", "gpt", "texts to codes: the language model", share=0.6),
    Stage(
        "decoder",
        "gpt",
        "the language model's hidden states to mels",
        share=0.1,
        function="train_decoder_stage",
    ),
    Stage("export", "export", "everything into asset/, as `load` wants it"),
    Stage("evaluate", "evaluate", "word error rates and more, as a table and pictures"),
)
_MINUTES = 240.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stages that the arguments select.

    Args:
        argv: the arguments after the program's name; those of the process by default.

    Returns:
        The exit status: 0, 1 after an error, 130 after Ctrl-C.
    """
    args = _parser().parse_args(argv)
    _report(args.out, args.verbose)
    try:
        _run(args)
    except KeyboardInterrupt:
        logger.warning("interrupted; the same command goes on from here")
        return 130
    except ChatTTSError as error:
        logger.error("%s", error)
        return 1
    return 0


def _run(args: argparse.Namespace) -> None:
    if args.threads:
        torch.set_num_threads(args.threads)
    chosen = chosen_stages(args.stage)
    run = Run(
        out=args.out,
        device=choose_placement(args.device).audio_device,
        seed=args.seed,
        corpus=Corpus(args.seed, args.utterances, args.out / "data" / "speech"),
        budgets={stage.name: budget_of(stage, args) for stage in STAGES if stage.share},
        adversarial=args.adversarial,
        compiled=args.compile,
    )
    logger.info("%s, on %s, into %s", args.stage, run.device, run.out)
    left = args.run_minutes
    for stage in chosen:
        budgets = {name: replace(budget, run_minutes=left) for name, budget in run.budgets.items()}
        logger.info("%s: %s", stage.name, stage.what)
        before = _trained_minutes(stage, run)
        stage.function_of_run()(replace(run, budgets=budgets))
        if left is not None:
            left = max(0.0, left - (_trained_minutes(stage, run) - before))
        if stage.share and not is_finished(stage.name, run):
            logger.info("%s: not finished yet; the same command goes on", stage.name)
            return


def chosen_stages(name: str) -> list[Stage]:
    """Return the stages to run for a name on the command line.

    The stage ``data`` comes before training: if training had to synthesize each utterance itself,
    the device would have to wait.
    """
    if name == "all":
        return list(STAGES)
    stage = next(stage for stage in STAGES if stage.name == name)
    return [STAGES[0], stage] if stage.share else [stage]


def is_finished(stage: str, run: Run) -> bool:
    """Return whether a stage has spent its budget."""
    return run.budgets[stage].spent(read_position(run.state(stage))) >= 1.0


def _trained_minutes(stage: Stage, run: Run) -> float:
    return read_position(run.state(stage.name)).seconds / 60 if stage.share else 0.0


def budget_of(stage: Stage, args: argparse.Namespace) -> Budget:
    """Return the budget of a stage that trains: steps if they are given, else minutes.

    ``--minutes`` is the budget of the named stage, or with ``all`` of all stages together.
    """
    if args.steps is not None:
        return Budget(steps=args.steps)
    if args.minutes is None:
        return Budget(minutes=_MINUTES * stage.share)
    return Budget(minutes=args.minutes * (stage.share if args.stage == "all" else 1.0))


def _parser() -> argparse.ArgumentParser:
    stages = "\n".join(f"  {stage.name:<10}{stage.what}" for stage in STAGES)
    parser = argparse.ArgumentParser(
        prog="python -m recipes.bundled_voice",
        description=f"{_DESCRIPTION}\n\nstages, in their order:\n{stages}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "stage",
        choices=[*(stage.name for stage in STAGES), "all"],
        metavar="STAGE",
        help="one of those above, or `all`",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for everything made")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--minutes",
        type=_positive,
        help="of training: of the stage, or of all stages together "
        f"(default {_MINUTES:g} together), over all runs",
    )
    budget.add_argument(
        "--steps",
        type=_whole(1),
        help="of each stage, over all runs; unlike minutes, steps give reproducible weights",
    )
    parser.add_argument(
        "--run-minutes",
        type=_positive,
        help="save and stop this run after so many minutes of training; making the corpus and its "
        "codes is not counted",
    )
    parser.add_argument(
        "--utterances", type=_whole(1), default=20_000, help="of the teacher (default %(default)s)"
    )
    parser.add_argument(
        "--seed", type=_whole(0), default=1, help="of everything (default %(default)s)"
    )
    parser.add_argument("--device", help="such as cpu or cuda:0; the best there is by default")
    parser.add_argument("--threads", type=_whole(1), help="of torch on the CPU")
    parser.add_argument(
        "--adversarial",
        action="store_true",
        help="the vocoder also learns from a discriminator: slower steps, crisper sound",
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help="compile the language model: a third more steps; needs a C++ compiler",
    )
    parser.add_argument("--verbose", action="store_true", help="tell more")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0")
    return value


def _whole(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value

    whole.__name__ = "whole number"  # argparse's error message contains this name
    return whole


def _report(out: Path, verbose: bool) -> None:
    """Send log messages to standard error and to ``log/recipe.log``."""
    log = out / "log"
    log.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(message)s",
        handlers=[logging.StreamHandler(), logging.FileHandler(log / "recipe.log")],
        force=True,
    )
    # matplotlib logs every font that it examines.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
