"""The sides of a comparison: what they are, what they speak, and how they are timed by turns."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .child import ChildProcess
from .command import check_at_least_one, check_positions
from .report import Round

# Positions of a code prompt that are not text: [Stts] [empty_spk] [speed_5] ... [Ptts].
CONTROL_POSITIONS = 4
_WARM_UP_FRAMES = 4


@dataclass(frozen=True)
class Side:
    """One of the packages, engines or dtypes that are compared.

    Attributes:
        key: its key in the report.
        name: its name in messages and tables.
        module: full name of the module that the child runs.
        load: arguments of the child's ``load`` beside folder and threads.
        python: the interpreter that runs the child.
        environment: variables of the child.
        isolated: keep this project's ``ChatTTS`` away from the child, see :class:`ChildProcess`.
        generates_separately: time generation in a call of its own. The engine keeps generating
            while texts that ended early are decoded to audio, so ``infer`` does not show the time
            of generation.
    """

    key: str
    name: str
    module: str
    load: Mapping[str, Any]
    python: Path = Path(sys.executable)
    environment: Mapping[str, str] = field(default_factory=dict)
    isolated: bool = False
    generates_separately: bool = False

    def start_child(self, threads: int) -> ChildProcess:
        """Return a new child."""
        return ChildProcess(
            self.name,
            self.python,
            self.module,
            threads,
            self.environment,
            isolated=self.isolated,
        )


@dataclass(frozen=True)
class LoadedSide:
    """A side whose child has loaded the checkpoint, and the answer of its ``load``."""

    side: Side
    child: ChildProcess
    answer: Mapping[str, Any]


def texts(streams: int, prompt: int, first: int = 0) -> list[str]:
    """Return ``streams`` texts, numbered from ``first`` on, of ``prompt`` positions each.

    A word of one letter is one token. Texts of different numbers differ, as long as the numbers
    are below 26 to the power of the number of words. So no prompt of an earlier round is in an
    engine's prefix cache.
    """
    words = prompt - CONTROL_POSITIONS
    return [
        " ".join(chr(ord("a") + number // 26**place % 26) for place in range(words))
        for number in range(first, first + streams)
    ]


def call(
    child: ChildProcess, do: str, streams: int, prompt: int, frames: int, first: int = 0
) -> dict[str, Any]:
    """Have a child speak, and check that it did exactly the requested work.

    Raises:
        RuntimeError: prompts have other lengths or texts have other numbers of frames.
    """
    answer = child.call(do, texts=texts(streams, prompt, first), frames=frames)
    wanted = {"prompts": [prompt] * streams, "frames": [frames] * streams}
    done = {name: answer[name] for name in wanted}
    if done != wanted:
        raise RuntimeError(f"{child.name} did other work than asked for: {done}, not {wanted}")
    return answer


def run(loaded: LoadedSide, streams: int, prompt: int, frames: int, first: int) -> Round:
    """Time one round of one side, with the texts from number ``first`` on."""
    generated = None
    if loaded.side.generates_separately:
        generated = call(loaded.child, "generate", streams, prompt, frames, first)
        first += streams
    spoken = call(loaded.child, "run", streams, prompt, frames, first)
    return Round(streams, frames, (generated or spoken)["generate_s"], spoken["infer_s"])


def load(
    stack: ExitStack, sides: Sequence[Side], folder: Path, threads: int
) -> dict[str, LoadedSide]:
    """Start a child for every side and have it load ``folder``; ``stack`` ends the children."""
    loaded = {}
    for side in sides:
        child = stack.enter_context(side.start_child(threads))
        answer = child.call("load", folder=str(folder), threads=threads, **side.load)
        loaded[side.key] = LoadedSide(side, child, answer)
    return loaded


def in_turns(
    loaded: Mapping[str, LoadedSide], args: argparse.Namespace
) -> Iterator[tuple[int, dict[str, list[Round]]]]:
    """Yield each number of streams with the rounds of every side.

    After a warm-up the sides take turns, so that a change of the machine's speed meets all of them.
    """
    numbers = itertools.count(step=2 * max(args.streams))
    with tqdm(total=len(args.streams) * (args.rounds + 1), desc="rounds", leave=False) as steps:
        for streams in args.streams:
            rounds: dict[str, list[Round]] = {key: [] for key in loaded}
            first = next(numbers)
            for one in loaded.values():
                run(one, streams, args.prompt, min(_WARM_UP_FRAMES, args.frames), first)
            steps.update()
            for _ in range(args.rounds):
                first = next(numbers)
                for key, one in loaded.items():
                    rounds[key].append(run(one, streams, args.prompt, args.frames, first))
                steps.update()
            yield streams, rounds


def add_arguments(parser: argparse.ArgumentParser, streams: Sequence[int]) -> None:
    """Add the options that every comparison has; ``streams`` are the default numbers of streams."""
    parser.add_argument("--prompt", type=int, default=50, help="positions of each prompt")
    parser.add_argument("--frames", type=int, default=350, help="new frames of each stream")
    parser.add_argument(
        "--streams", type=int, nargs="+", default=list(streams), help="started together"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each side")
    parser.add_argument("--rounds", type=int, default=3, help="timed runs of each side")
    parser.add_argument("--peer-python", type=Path, help="interpreter that has ChatTTS==0.2.5")
    parser.add_argument("--json", type=Path, help="write the whole report here")


def check_arguments(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End the program with a message if the settings contradict each other or are out of range."""
    if args.prompt <= CONTROL_POSITIONS:
        parser.error(f"--prompt must be at least {CONTROL_POSITIONS + 1}")
    check_at_least_one(parser, args, "frames", "threads", "rounds", "streams")
    check_positions(parser, args)


def peer_side(python: Path) -> Side:
    """Return the published package as a side; it computes in float32 on a CPU."""
    return Side(
        "peer",
        "the published package",
        "benchmarks.common.published",
        {"dtype": "float32"},
        python,
        isolated=True,
    )
